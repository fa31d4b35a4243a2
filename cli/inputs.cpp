// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "cli/inputs.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "cli/npy.h"
#include "core/support/suggest.h"

namespace ferrite::cli {
namespace {

using core::at;

std::vector<std::string_view> input_names(const core::Model& model) {
  std::vector<std::string_view> names;
  for (const auto& port : model.inputs()) names.push_back(port.name);
  return names;
}

/// A name that models use for "some size": it ties nothing together.
bool anonymous(const std::string& name) { return name.empty() || name == "?" || name == "-1"; }

/// NAME=FILE by the model's names, which may hold '=' themselves.
Result<std::vector<std::optional<Tensor>>> read_files(const core::Model& model,
                                                      const std::vector<std::string>& arguments) {
  const auto names = input_names(model);
  std::vector<std::optional<Tensor>> result(names.size());
  for (const auto& argument : arguments) {
    const std::string where = "-i " + argument;
    size_t found = names.size();
    for (size_t k = 0; k < names.size(); ++k)
      if (argument.size() > names[k].size() && argument.starts_with(names[k]) &&
          argument[names[k].size()] == '=' &&
          (found == names.size() || names[k].size() > names[found].size()))
        found = k;
    if (found == names.size()) {
      auto split = argument.find('=');
      if (split == std::string::npos) return at(where, error(FE_EINVALID, "FE-C02", "write NAME=FILE.npy"));
      auto name = argument.substr(0, split);
      return at(where, error(FE_EINVALID, "FE-C02", "the model has no input '{}'{}; it has {}", name,
                             core::did_you_mean(name, names), fmt::join(names, ", ")));
    }
    if (result[found])
      return at(where, error(FE_EINVALID, "FE-C02", "input '{}' is given twice", names[found]));
    FE_TRY(auto tensor, read_npy(argument.substr(names[found].size() + 1)));
    const auto wanted = model.inputs()[found].dtype;
    adopt_raw_floats(tensor, wanted);
    if (tensor.dtype != wanted)
      return at(where, error(FE_EINVALID, "FE-X02", "input '{}' has dtype {}, the file has {}; convert it",
                             names[found], name_of(wanted), name_of(tensor.dtype)));
    result[found] = std::move(tensor);
  }
  return result;
}

struct Sizes {
  std::map<std::string, int64_t> by_name;                 ///< of dims with a name
  std::map<std::pair<size_t, size_t>, int64_t> by_place;  ///< input and axis
};

Result<Sizes> read_sizes(const core::Model& model, const std::vector<std::string>& arguments) {
  const auto names = input_names(model);
  std::vector<std::string> known;
  for (const auto& port : model.inputs())
    for (size_t d = 0; d < port.dims.size(); ++d)
      if (port.dims[d] < 0) {
        auto name = anonymous(port.dim_names[d]) ? fmt::format("{}:{}", port.name, d) : port.dim_names[d];
        if (std::find(known.begin(), known.end(), name) == known.end()) known.push_back(std::move(name));
      }
  Sizes result;
  for (const auto& argument : arguments) {
    const std::string where = "--dim " + argument;
    const auto split = argument.rfind('=');
    int64_t size = -1;
    if (split != std::string::npos) {
      const char *begin = argument.data() + split + 1, *end = argument.data() + argument.size();
      auto [after, fault] = std::from_chars(begin, end, size);
      if (fault != std::errc() || after != end) size = -1;
    }
    if (size < 0) return at(where, error(FE_EINVALID, "FE-C06", "write NAME=N or INPUT:AXIS=N with N >= 0"));
    const auto name = argument.substr(0, split);
    bool found = false;
    for (const auto& port : model.inputs())
      for (size_t d = 0; d < port.dims.size(); ++d)
        if (port.dims[d] < 0 && !anonymous(port.dim_names[d]) && port.dim_names[d] == name) found = true;
    if (found) {
      result.by_name[name] = size;
      continue;
    }
    const auto colon = name.rfind(':');
    for (size_t k = 0; k < names.size() && colon != std::string::npos && !found; ++k) {
      if (name.substr(0, colon) != names[k]) continue;
      const auto& port = model.inputs()[k];
      for (size_t d = 0; d < port.dims.size() && !found; ++d)
        if (name.substr(colon + 1) == std::to_string(d)) {
          if (port.dims[d] >= 0 && port.dims[d] != size)
            return at(where, error(FE_EINVALID, "FE-C06", "dim {} of input '{}' is {} in the model", d,
                                   port.name, port.dims[d]));
          found = true;
          result.by_place[{k, d}] = size;
        }
    }
    if (found) continue;
    std::vector<std::string_view> views(known.begin(), known.end());
    return at(where, error(FE_EINVALID, "FE-C05", "the model has no dim '{}' that is open{}; open are: {}",
                           name, core::did_you_mean(name, views),
                           known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
  }
  return result;
}

Result<std::vector<std::vector<int64_t>>> resolve(const core::Model& model,
                                                  const std::vector<std::optional<Tensor>>& files,
                                                  Sizes sizes) {
  const auto& ports = model.inputs();
  // A file's shape gives the named dims of its input to all others.
  for (size_t k = 0; k < ports.size(); ++k)
    for (size_t d = 0; files[k] && d < ports[k].dims.size() && d < files[k]->dims.size(); ++d) {
      if (ports[k].dims[d] >= 0 || anonymous(ports[k].dim_names[d])) continue;
      auto [entry, fresh] = sizes.by_name.emplace(ports[k].dim_names[d], files[k]->dims[d]);
      if (!fresh && entry->second != files[k]->dims[d])
        return at(fmt::format("input '{}'", ports[k].name),
                  error(FE_EINVALID, "FE-X04", "dim '{}' is {} in the file given and {} elsewhere",
                        entry->first, files[k]->dims[d], entry->second));
    }
  std::vector<std::vector<int64_t>> result(ports.size());
  std::vector<std::string> missing;
  for (size_t k = 0; k < ports.size(); ++k) {
    if (files[k]) {
      result[k] = files[k]->dims;
      continue;
    }
    if (!ports[k].ranked)
      return error(FE_EINVALID, "FE-C05",
                   "the rank of input '{}' is open; give the input with -i {}=FILE.npy", ports[k].name,
                   ports[k].name);
    for (size_t d = 0; d < ports[k].dims.size(); ++d) {
      int64_t size = ports[k].dims[d];
      const auto& name = ports[k].dim_names[d];
      if (auto place = sizes.by_place.find({k, d}); place != sizes.by_place.end()) size = place->second;
      if (auto named = sizes.by_name.find(name); size < 0 && !anonymous(name) && named != sizes.by_name.end())
        size = named->second;
      auto option =
          anonymous(name) ? fmt::format("--dim {}:{}=N", ports[k].name, d) : fmt::format("--dim {}=N", name);
      if (size < 0 && std::find(missing.begin(), missing.end(), option) == missing.end())
        missing.push_back(option);
      result[k].push_back(size);
    }
  }
  if (!missing.empty())
    return error(FE_EINVALID, "FE-C05", "sizes are open; give {}, or the inputs with -i",
                 fmt::join(missing, " "));
  return result;
}

}  // namespace

void InputOptions::add_to(CLI::App& command) {
  command
      .add_option("-i,--input", files, "An input from a file; inputs not given are random by type and shape")
      ->type_name("NAME=FILE.npy")
      ->allow_extra_args(false);
  command.add_option("--dim", dims, "The size of an open dim, by its name or as INPUT:AXIS (x:2=48)")
      ->type_name("NAME=N")
      ->allow_extra_args(false);
  command.add_option("--seed", seed, "Of random inputs; the same seed gives the same inputs")->type_name("N");
}

Result<std::vector<std::vector<int64_t>>> resolve_dims(const core::Model& model,
                                                       const InputOptions& options) {
  FE_TRY(auto files, read_files(model, options.files));
  FE_TRY(auto sizes, read_sizes(model, options.dims));
  return resolve(model, files, std::move(sizes));
}

Result<std::vector<Tensor>> make_inputs(const core::Model& model, const InputOptions& options) {
  FE_TRY(auto files, read_files(model, options.files));
  FE_TRY(auto sizes, read_sizes(model, options.dims));
  FE_TRY(auto dims, resolve(model, files, std::move(sizes)));
  std::vector<Tensor> result;
  for (size_t k = 0; k < dims.size(); ++k) {
    if (files[k]) {
      result.push_back(std::move(*files[k]));
      continue;
    }
    auto tensor = Tensor::make(model.inputs()[k].dtype, dims[k]);
    if (!tensor) return at(fmt::format("input '{}'", model.inputs()[k].name), std::move(tensor.error()));
    // Each input has a stream of its own, so that adding one changes no other.
    fill_random(*tensor, (options.seed + 1) * 0x9e3779b97f4a7c15u + k);
    result.push_back(std::move(*tensor));
  }
  return result;
}

}  // namespace ferrite::cli
