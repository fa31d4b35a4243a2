// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "target.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <mutex>
#include <vector>

#include "ferrite/error.hpp"

namespace ferrite::cpu {

namespace {

std::string host_features() {
  std::vector<std::string> enabled;
  for (const auto& feature : llvm::sys::getHostCPUFeatures())
    if (feature.second) enabled.push_back(feature.first().str());
  std::sort(enabled.begin(), enabled.end());
  std::string text;
  for (const auto& feature : enabled) text.append(text.empty() ? "+" : ",+").append(feature);
  return text;
}

long cache_bytes(int name, long fallback) {
  long bytes = sysconf(name);
  return bytes > 0 ? bytes : fallback;
}

int64_t number(std::string_view key, std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value <= 0)
    fail("ferrite.cpu/target", "'", key, "=", text, "' of the target description is no positive number");
  return value;
}

/// What the emitter asks, from the features that LLVM derives of cpu and feature list.
void derive(emitter::Target& target) {
  std::string error;
  llvm::Triple triple(target.triple);
  const auto* found = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!found || !(triple.isX86() || triple.isAArch64()))
    fail("ferrite.cpu/target", "'", target.triple, "' is no CPU that code can be made for");
  std::unique_ptr<llvm::MCSubtargetInfo> machine(found->createMCSubtargetInfo(triple, "", ""));
  if (!target.cpu.empty() && !machine->isCPUStringValid(target.cpu))
    fail("ferrite.cpu/target", "unknown cpu '", target.cpu, "' for ", target.triple);
  machine.reset(found->createMCSubtargetInfo(triple, target.cpu, target.features));
  if (triple.isAArch64()) {
    target.vector_bytes = 16;
    target.vector_registers = 32;
    target.fused_multiply_add = target.half_conversion = true;
    return;
  }
  auto has = [&](const char* features) { return machine->checkFeatures(features); };
  bool wide = has("+avx512f,+avx512bw,+avx512dq,+avx512vl");
  target.vector_bytes = wide ? 64 : has("+avx2") ? 32 : 16;
  target.vector_registers = wide ? 32 : 16;
  target.masks = target.gathers = wide;
  target.fused_multiply_add = has("+fma");
  target.half_conversion = has("+f16c");
  target.bf16_dot = has("+avx512bf16");
}

}  // namespace

void initialise_llvm() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeAllTargetInfos();
    llvm::InitializeAllTargets();
    llvm::InitializeAllTargetMCs();
    llvm::InitializeAllAsmPrinters();
    llvm::InitializeAllAsmParsers();
  });
}

std::string describe_host() {
  std::string text = "triple=" + llvm::sys::getDefaultTargetTriple();
  text += " cpu=" + llvm::sys::getHostCPUName().str() + " features=" + host_features();
  text += " l1=" + std::to_string(cache_bytes(_SC_LEVEL1_DCACHE_SIZE, 32 << 10));
  text += " l2=" + std::to_string(cache_bytes(_SC_LEVEL2_CACHE_SIZE, 1 << 20));
  long cores = std::max(1L, sysconf(_SC_NPROCESSORS_ONLN));
  text += " l3=" + std::to_string(std::max(1L << 20, cache_bytes(_SC_LEVEL3_CACHE_SIZE, 1 << 20) / cores));
  return text;
}

emitter::Target parse_target(std::string_view description) {
  initialise_llvm();
  emitter::Target target;
  bool generic = true;
  while (!description.empty()) {
    auto start = description.find_first_not_of(" \t\r\n");
    if (start == std::string_view::npos) break;
    description.remove_prefix(start);
    auto word = description.substr(0, description.find_first_of(" \t\r\n"));
    description.remove_prefix(word.size());
    auto equal = word.find('=');
    auto key = word.substr(0, equal);
    auto value = equal == std::string_view::npos ? std::string_view() : word.substr(equal + 1);
    generic = false;
    if (key == "triple")
      target.triple = value;
    else if (key == "cpu")
      target.cpu = value;
    else if (key == "features")
      target.features = value;
    else if (key == "l1")
      target.l1_bytes = number(key, value);
    else if (key == "l2")
      target.l2_bytes = number(key, value);
    else if (key == "l3")
      target.l3_bytes_per_core = number(key, value);
    else
      fail("ferrite.cpu/target", "unknown key '", key,
           "' in the target description; known: triple, cpu, features, l1, l2, l3");
  }
  if (generic) return parse_target(describe_host());
  if (target.triple.empty()) target.triple = llvm::sys::getDefaultTargetTriple();
  derive(target);
  return target;
}

}  // namespace ferrite::cpu
