// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs docs/examples/tutorial.fe through the C API.
#include <ferrite/ferrite.h>
#include <stdio.h>

static int fail(const char* what) {
  ferrite_error error = {.size = sizeof error};
  ferrite_last_error(&error);
  fprintf(stderr, "%s: %s %s: %s\n", what, error.code, error.where, error.text);
  return 1;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  ferrite_session* session;
  ferrite_model* model;
  if (ferrite_session_open(NULL, &session) != FERRITE_OK) return fail("session");
  if (ferrite_model_load(session, argv[1], &model) != FERRITE_OK) return fail("model");

  static float x[256 * 384], y[256 * 384];
  int64_t shape[2] = {256, 384};
  for (int k = 0; k < 256 * 384; ++k) x[k] = (float)(k % 384) / 384;
  DLTensor input = {.data = x,
                    .device = {kDLCPU, 0},
                    .ndim = 2,
                    .dtype = {.code = kDLFloat, .bits = 32, .lanes = 1},
                    .shape = shape};
  DLTensor output = input;
  output.data = y;
  const DLTensor* inputs[1] = {&input};
  DLTensor* outputs[1] = {&output};
  if (ferrite_run(model, inputs, 1, outputs, 1) != FERRITE_OK) return fail("run");

  float sum = 0;
  for (int k = 0; k < 384; ++k) sum += y[k];
  printf("the first row of the softmax sums to %.3f\n", sum);
  ferrite_model_free(model);
  ferrite_session_close(session);
  return 0;
}
