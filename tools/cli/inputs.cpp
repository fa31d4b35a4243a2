// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "tools/cli/inputs.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>

#include "core/support/suggest.h"
#include "tools/cli/npy.h"

namespace ferrite::cli {
namespace {

using core::at;

std::vector<std::string_view> input_names(const core::Model& model) {
  std::vector<std::string_view> names;
  for (const auto& port : model.inputs()) names.push_back(port.name);
  return names;
}

/// Whether the name only means "some size": such dims are independent of each other.
bool anonymous(const std::string& name) { return name.empty() || name == "?" || name == "-1"; }

/// NAME=FILE, by the model's names, which may contain '=' themselves.
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
    const auto path = argument.substr(names[found].size() + 1);
    if (path.empty())
      return at(where, error(FE_EINVALID, "FE-C02", "the file is missing: write {}=FILE.npy", names[found]));
    FE_TRY(auto tensor, read_npy(path));
    const auto wanted = model.inputs()[found].dtype;
    adopt_raw_floats(tensor, wanted);
    if (tensor.dtype != wanted)
      return at(where, error(FE_EINVALID, "FE-X02", "input '{}' has dtype {}, the file has {}; convert it",
                             names[found], name_of(wanted), name_of(tensor.dtype)));
    result[found] = std::move(tensor);
  }
  return result;
}

/// A size and its origin: "--dim n=3" or "input 'x'".
struct Size {
  int64_t size = 0;
  std::string giver;
};
struct Sizes {
  std::map<std::string, Size> by_name;                 ///< of named dims, also where given by input and axis
  std::map<std::pair<size_t, size_t>, Size> by_place;  ///< by input and axis, of unnamed dims
};

/// NAME=N: the name and the size; nothing where the text does not have this form.
std::optional<std::pair<std::string, int64_t>> split_size(const std::string& argument) {
  const auto split = argument.rfind('=');
  if (split == std::string::npos) return {};
  int64_t size = -1;
  const char *begin = argument.data() + split + 1, *end = argument.data() + argument.size();
  auto [after, fault] = std::from_chars(begin, end, size);
  if (fault != std::errc() || after != end || size < 0) return {};
  return std::pair{argument.substr(0, split), size};
}

/// The names by which open dims can be given.
std::vector<std::string> open_dims(const core::Model& model) {
  std::vector<std::string> known;
  for (const auto& port : model.inputs())
    for (size_t d = 0; d < port.dims.size(); ++d) {
      if (port.dims[d] >= 0) continue;
      auto name = anonymous(port.dim_names[d]) ? fmt::format("{}:{}", port.name, d) : port.dim_names[d];
      if (std::find(known.begin(), known.end(), name) == known.end()) known.push_back(std::move(name));
    }
  return known;
}

bool named_dim(const core::Model& model, const std::string& name) {
  for (const auto& port : model.inputs())
    for (size_t d = 0; d < port.dims.size(); ++d)
      if (port.dims[d] < 0 && !anonymous(port.dim_names[d]) && port.dim_names[d] == name) return true;
  return false;
}

/// INPUT:AXIS, where the model has both.
std::optional<std::pair<size_t, size_t>> find_place(const core::Model& model, const std::string& name) {
  const auto colon = name.rfind(':');
  if (colon == std::string::npos) return {};
  for (size_t k = 0; k < model.inputs().size(); ++k)
    for (size_t d = 0; d < model.inputs()[k].dims.size(); ++d)
      if (name.substr(0, colon) == model.inputs()[k].name && name.substr(colon + 1) == std::to_string(d))
        return std::pair{k, d};
  return {};
}

Result<Sizes> read_sizes(const core::Model& model, const std::vector<std::string>& arguments) {
  const auto known = open_dims(model);
  Sizes result;
  for (const auto& argument : arguments) {
    const std::string where = "--dim " + argument;
    const auto given = split_size(argument);
    if (!given) return at(where, error(FE_EINVALID, "FE-C06", "write NAME=N or INPUT:AXIS=N with N >= 0"));
    const auto& [name, size] = *given;
    // A dim's own name precedes the form INPUT:AXIS, whatever it looks like.
    std::string symbol = named_dim(model, name) ? name : "";
    const auto place = symbol.empty() ? find_place(model, name) : std::nullopt;
    if (place) {
      const auto& port = model.inputs()[place->first];
      const int64_t fixed = port.dims[place->second];
      if (fixed >= 0 && fixed != size)
        return at(where, error(FE_EINVALID, "FE-C06", "dim {} of input '{}' is {} in the model",
                               place->second, port.name, fixed));
      if (fixed >= 0) continue;
      // A position whose dim has a name stands for the name, and so for all dims with that name.
      if (!anonymous(port.dim_names[place->second])) symbol = port.dim_names[place->second];
    } else if (symbol.empty()) {
      std::vector<std::string_view> views(known.begin(), known.end());
      return at(where, error(FE_EINVALID, "FE-C05", "the model has no dim '{}' that is open{}; open are: {}",
                             name, core::did_you_mean(name, views),
                             known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
    }
    const Size& first = symbol.empty() ? result.by_place.emplace(*place, Size{size, where}).first->second
                                       : result.by_name.emplace(symbol, Size{size, where}).first->second;
    if (first.size != size)
      return at(where, error(FE_EINVALID, "FE-C06", "the dim has size {} already by {}; give one size",
                             first.size, first.giver));
  }
  return result;
}

/// The shape of a file defines the named dims of its input for all others, and must agree with --dim.
Result<void> read_shape(const core::ModelPort& port, size_t number, const Tensor& file, Sizes& sizes) {
  const std::string where = fmt::format("input '{}'", port.name);
  for (size_t d = 0; d < port.dims.size() && d < file.dims.size(); ++d) {
    if (port.dims[d] >= 0) continue;
    const bool named = !anonymous(port.dim_names[d]);
    const Size* other = nullptr;
    if (named) {
      other = &sizes.by_name.emplace(port.dim_names[d], Size{file.dims[d], where}).first->second;
    } else if (auto place = sizes.by_place.find({number, d}); place != sizes.by_place.end()) {
      other = &place->second;
    }
    if (!other || other->size == file.dims[d]) continue;
    const auto name = named ? port.dim_names[d] : fmt::format("{}:{}", port.name, d);
    if (other->giver.starts_with("--dim"))
      return at(other->giver,
                error(FE_EINVALID, "FE-C06", "dim '{}' is {} in the file of {}; leave --dim out", name,
                      file.dims[d], where));
    return at(where, error(FE_EINVALID, "FE-X04", "dim '{}' is {} in the file given and {} in that of {}",
                           name, file.dims[d], other->size, other->giver));
  }
  return {};
}

Result<std::vector<std::vector<int64_t>>> resolve(const core::Model& model,
                                                  const std::vector<std::optional<Tensor>>& files,
                                                  Sizes sizes) {
  const auto& ports = model.inputs();
  for (size_t k = 0; k < ports.size(); ++k)
    if (files[k]) FE_CHECK(read_shape(ports[k], k, *files[k], sizes));
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
      if (auto place = sizes.by_place.find({k, d}); place != sizes.by_place.end()) size = place->second.size;
      if (auto named = sizes.by_name.find(name); size < 0 && !anonymous(name) && named != sizes.by_name.end())
        size = named->second.size;
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
  command.add_option("--seed", seed, "Seed of the random inputs; the same seed gives the same inputs")
      ->type_name("N")
      ->check(whole_number);
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
    // Each input has a random stream of its own, so that an additional input does not change the others.
    fill_random(*tensor, (options.seed + 1) * 0x9e3779b97f4a7c15u + k);
    result.push_back(std::move(*tensor));
  }
  return result;
}

}  // namespace ferrite::cli
