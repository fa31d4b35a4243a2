// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs one directory of ONNX test data in this process; onnx-test starts it as a child so that a crash does
// not affect other cases.
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "core/support/files/file_fault.h"
#include "ferrite/counted.hpp"
#include "tools/cli/running.h"
#include "tools/cli/tensor_proto.h"

namespace ferrite::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string folder;
  PipelineOptions pipeline;
  DeviceOptions device;
};

Result<std::string> read_file(const fs::path& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file)
    return core::at(path.string(), error(FE_EINVALID, "FE-C10", "the file cannot be read: {}",
                                         core::file_fault(path.string(), errno)));
  return bytes;
}

/// input_0.pb, input_1.pb, ... of one data set.
Result<std::vector<Tensor>> read_tensors(const fs::path& folder, std::string_view prefix) {
  std::vector<Tensor> result;
  for (size_t k = 0;; ++k) {
    const auto path = folder / fmt::format("{}_{}.pb", prefix, k);
    std::error_code failed;
    if (!fs::exists(path, failed)) return result;
    FE_TRY(auto bytes, read_file(path));
    FE_TRY(auto read, read_tensor_proto(bytes, path.string()));
    result.push_back(std::move(read.tensor));
  }
}

/// Some published tests have data of another shape than their own model declares. FE-C24, unsupported, where
/// the two files disagree. This is no error of the importer; a wrong shape from the importer is not excused.
Result<void> check_agreement(std::span<const DeclaredInput> declared, std::string_view name,
                             const Tensor& given, const std::string& file) {
  for (const auto& input : declared) {
    if (input.name != name || !input.ranked) continue;
    bool agrees = input.dims.size() == given.dims.size();
    for (size_t k = 0; agrees && k < input.dims.size(); ++k)
      agrees = input.dims[k] < 0 || input.dims[k] == given.dims[k];
    if (!agrees)
      return core::at(file, error(FE_EUNSUPPORTED, "FE-C24",
                                  "the test contradicts itself: its model.onnx declares input '{}' with the "
                                  "shape [{}], the tensor here has [{}]",
                                  name, fmt::join(input.dims, ","), fmt::join(given.dims, ",")));
  }
  return {};
}

/// Empty where the results are right, else the error.
Result<std::string> run_data_set(OpenModel& opened, std::span<const DeclaredInput> declared,
                                 const fs::path& folder) {
  FE_TRY(auto inputs, read_tensors(folder, "input"));
  FE_TRY(auto expected, read_tensors(folder, "output"));
  const auto& ports = opened.model->inputs();
  if (inputs.size() != ports.size())
    return core::at(folder.string(), error(FE_EINVALID, "FE-X01", "the model has {}, the test gives {}",
                                           counted(ports.size(), "input"), inputs.size()));
  for (size_t k = 0; k < ports.size(); ++k) {
    FE_CHECK(check_agreement(declared, ports[k].name, inputs[k],
                             (folder / fmt::format("input_{}.pb", k)).string()));
    adopt_raw_floats(inputs[k], ports[k].dtype);
    if (inputs[k].dtype != ports[k].dtype)
      return core::at(folder.string(),
                      error(FE_EINVALID, "FE-X02", "input '{}' has dtype {}, the test gives {}",
                            ports[k].name, name_of(ports[k].dtype), name_of(inputs[k].dtype)));
  }
  FE_TRY(auto runner, Runner::make(opened, inputs));
  FE_CHECK(runner.run(inputs));
  if (runner.outputs().size() != expected.size())
    return fmt::format("{}, the test expects {}", counted(runner.outputs().size(), "output"),
                       expected.size());
  for (size_t k = 0; k < expected.size(); ++k) {
    adopt_raw_floats(expected[k], runner.outputs()[k].dtype);
    auto text = difference(runner.outputs()[k], expected[k], tolerance_of(expected[k].dtype));
    if (!text.empty()) return fmt::format("output '{}' {}", opened.model->outputs()[k].name, text);
  }
  return std::string();
}

Result<std::string> run_case(const Options& options) {
  const auto path = fs::path(options.folder) / "model.onnx";
  FE_TRY(auto opened, open_model(options.pipeline, options.device, path.string()));
  FE_TRY(auto bytes, read_file(path));
  const auto declared = declared_inputs(bytes);
  size_t sets = 0;
  for (const auto& entry : fs::directory_iterator(options.folder)) {
    if (!entry.is_directory() || !entry.path().filename().string().starts_with("test_data_set_")) continue;
    ++sets;
    FE_TRY(auto wrong, run_data_set(opened, declared, entry.path()));
    if (!wrong.empty()) return fmt::format("{}: {}", entry.path().filename().string(), wrong);
  }
  if (sets == 0)
    return core::at(options.folder,
                    error(FE_EUNSUPPORTED, "FE-C22", "there is no test data: no folder test_data_set_*"));
  return std::string();
}

}  // namespace

Run add_onnx_case(CLI::App& command) {
  auto options = std::make_shared<Options>();
  command.add_option("folder", options->folder)->required();
  options->device.add_to(command);
  options->pipeline.add_to(command);
  return [options] {
    auto wrong = run_case(*options);
    nlohmann::json verdict;
    if (wrong)
      verdict = {{"result", wrong->empty() ? "pass" : "wrong"}, {"text", *wrong}};
    else
      verdict = {{"result", wrong.error().status == FE_EUNSUPPORTED ? "unsupported" : "error"},
                 {"text", wrong.error().message()}};
    fmt::print("{}\n", verdict.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    return 0;
  };
}

}  // namespace ferrite::cli
