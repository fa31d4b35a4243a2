// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NVIDIA's driver with a clock around the functions that a replayed run calls. The time between two launches
// of a recording is the host's own work.
//
//   cc -O2 -shared -fPIC bench/timed_driver.c -o libtimed_driver.so -Wl,--no-as-needed -l:libcuda.so.1 -ldl
//
// Use it with a manifest that says [plugin."ferrite.cuda".config] library = ".../libtimed_driver.so":
//
//   ferrite bench MODEL --device cuda:0 --on-device --repeat 1000
//
// At its end the program prints one more line of JSON, in microseconds. The loader finds all other functions
// in the driver, which this library depends on. One thread only: the work of other threads counts as host
// time.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { most_runs = 100000 };
static double in_driver, last_launch = -1, in_driver_then;
static double host[most_runs], all[most_runs];
static int runs;
static long other_calls;

static double now(void) {
  struct timespec at;
  clock_gettime(CLOCK_MONOTONIC, &at);
  return (double)at.tv_sec * 1e6 + (double)at.tv_nsec * 1e-3;
}

static void* of_driver(const char* name) {
  static void* driver;
  if (!driver) driver = dlopen("libcuda.so.1", RTLD_NOW);
  return driver ? dlsym(driver, name) : NULL;
}

#define TIMED(name, parameters, arguments)        \
  int name parameters {                           \
    static int(*call) parameters;                 \
    if (!call) *(void**)&call = of_driver(#name); \
    const double began = now();                   \
    const int result = call arguments;            \
    in_driver += now() - began;                   \
    ++other_calls;                                \
    return result;                                \
  }

TIMED(cuCtxSetCurrent, (void* context), (context))
TIMED(cuStreamSynchronize, (void* stream), (stream))
TIMED(cuEventRecord, (void* event, void* stream), (event, stream))
TIMED(cuStreamWaitEvent, (void* stream, void* event, unsigned flags), (stream, event, flags))
TIMED(cuGraphExecKernelNodeSetParams_v2, (void* graph, void* node, void* launch), (graph, node, launch))

int cuGraphLaunch(void* graph, void* stream) {
  static int (*call)(void*, void*);
  if (!call) *(void**)&call = of_driver("cuGraphLaunch");
  const double began = now();
  if (last_launch >= 0 && runs < most_runs) {
    all[runs] = began - last_launch;
    host[runs++] = began - last_launch - (in_driver - in_driver_then);
  }
  last_launch = began;
  in_driver_then = in_driver;
  const int result = call(graph, stream);
  in_driver += now() - began;
  return result;
}

static int by_size(const void* a, const void* b) {
  const double difference = *(const double*)a - *(const double*)b;
  return difference < 0 ? -1 : difference > 0;
}

__attribute__((destructor)) static void say(void) {
  if (runs == 0) return;
  qsort(host, (size_t)runs, sizeof *host, by_size);
  qsort(all, (size_t)runs, sizeof *all, by_size);
  printf(
      "{\"replays\": %d, \"host_us_median\": %.2f, \"host_us_least\": %.2f, \"run_us_median\": %.1f, "
      "\"other_calls\": %ld}\n",
      runs, host[runs / 2], host[0], all[runs / 2], other_calls);
}
