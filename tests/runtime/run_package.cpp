// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a package with libferrite_runtime.so: run_package PACKAGE INPUT... OUTPUT-FOLDER. Inputs are files of
// elements, in the order of the ports; outputs are written as 0.bin, 1.bin, ... An error is printed with its
// code, and the exit status is not 0. The error of writing a package, which this library cannot do, is
// printed after the run.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "ferrite/ferrite.h"

namespace {

int fail() {
  ferrite_error error{};
  error.size = sizeof error;
  ferrite_last_error(&error);
  std::fprintf(stderr, "%s %s: %s\n", error.code, error.where, error.text);
  return error.status;
}

std::vector<char> contents(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return FERRITE_EINVALID;
  ferrite_session* session = nullptr;
  if (ferrite_session_open(nullptr, &session) != FERRITE_OK) return fail();
  ferrite_model* model = nullptr;
  if (ferrite_model_load(session, argv[1], &model) != FERRITE_OK) return fail();
  const auto inputs = ferrite_model_input_count(model);
  std::vector<std::vector<char>> elements;
  std::vector<DLTensor> tensors(inputs);
  std::vector<const DLTensor*> given;
  for (uint64_t k = 0; k < inputs; ++k) {
    ferrite_port port{};
    port.size = sizeof port;
    if (ferrite_model_input(model, k, &port) != FERRITE_OK) return fail();
    elements.push_back(contents(argv[2 + k]));
    auto& tensor = tensors[k];
    tensor.data = elements.back().data();
    tensor.device = {kDLCPU, 0};
    tensor.ndim = port.rank;
    tensor.dtype = port.dtype;
    tensor.shape = const_cast<int64_t*>(port.dims);
    given.push_back(&tensor);
  }
  const auto outputs = ferrite_model_output_count(model);
  std::vector<DLManagedTensorVersioned*> results(outputs);
  if (ferrite_run_alloc(model, given.data(), inputs, results.data(), outputs) != FERRITE_OK) return fail();
  for (uint64_t k = 0; k < outputs; ++k) {
    const DLTensor& tensor = results[k]->dl_tensor;
    int64_t bytes = tensor.dtype.bits / 8;
    for (int32_t d = 0; d < tensor.ndim; ++d) bytes *= tensor.shape[d];
    std::ofstream file(std::filesystem::path(argv[argc - 1]) / (std::to_string(k) + ".bin"),
                       std::ios::binary);
    file.write(static_cast<const char*>(tensor.data), bytes);
    results[k]->deleter(results[k]);
  }
  ferrite_stats stats{};
  stats.size = sizeof stats;
  if (ferrite_model_stats(model, &stats) != FERRITE_OK) return fail();
  std::printf("%llu kernels, compiled in %.1f ms\n", static_cast<unsigned long long>(stats.kernels),
              stats.compile_ms);
  if (ferrite_model_save(model, given.data(), inputs, nullptr, 0, "copy.fepkg") == FERRITE_OK)
    return FERRITE_EINTERNAL;
  fail();
  ferrite_model_free(model);
  ferrite_session_close(session);
  return 0;
}
