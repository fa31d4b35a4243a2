// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "target.h"

#include <llvm/ADT/StringMap.h>
#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <mutex>
#include <vector>

#include "ferrite/error.hpp"
#include "ferrite/target_description.hpp"

namespace ferrite::cpu {

namespace {

std::string joined(std::vector<std::string> words) {
  std::sort(words.begin(), words.end());
  std::string text;
  for (const auto& word : words) text.append(text.empty() ? "" : ",").append(word);
  return text;
}

/// Rejects unknown features; LLVM would only ignore them, with a line on standard error.
void check_features(const llvm::MCSubtargetInfo& machine, llvm::StringRef features) {
  const std::string arch = machine.getTargetTriple().getArchName().str();
  const llvm::SubtargetFeatures given(features);
  for (const auto& feature : given.getFeatures()) {
    if (!llvm::SubtargetFeatures::hasFlag(feature))
      fail("ferrite.cpu/target", "the feature '", feature, "' has no sign; write +", feature, " or -",
           feature, ", with commas between features");
    if (llvm::none_of(machine.getAllProcessorFeatures(),
                      [name = feature.substr(1)](const auto& known) { return name == known.Key; }))
      fail("ferrite.cpu/target", "unknown feature '", feature, "' for ", arch,
           "; leave it out, or give one that LLVM knows: 'llc -mtriple=", arch, " -mattr=help' lists them");
  }
}

std::unique_ptr<llvm::MCSubtargetInfo> subtarget(const llvm::Triple& triple, llvm::StringRef cpu,
                                                 llvm::StringRef features) {
  std::string error;
  const auto* found = llvm::TargetRegistry::lookupTarget(triple, error);
  const bool known = triple.getArch() == llvm::Triple::x86_64 || triple.getArch() == llvm::Triple::aarch64;
  if (!found || !known)
    fail("ferrite.cpu/target", "'", triple.str(),
         "' is no CPU that code can be made for; x86_64 and aarch64 are");
  std::unique_ptr<llvm::MCSubtargetInfo> machine(found->createMCSubtargetInfo(triple, "", ""));
  if (!cpu.empty() && !machine->isCPUStringValid(cpu))
    fail("ferrite.cpu/target", "unknown cpu '", std::string_view(cpu), "' for ", triple.str(),
         "; give a level of x86-64, as x86-64-v3, a cpu that LLVM knows, or another machine's triple, as "
         "'triple=aarch64-linux-gnu cpu=cortex-a76'");
  check_features(*machine, features);
  machine.reset(found->createMCSubtargetInfo(triple, cpu, features));
  return machine;
}

/// Features that code for a machine may use and this host does not have, or may not use.
std::vector<std::string> not_on_host(const llvm::MCSubtargetInfo& machine) {
  const auto host = llvm::sys::getHostCPUFeatures();
  std::vector<std::string> missing;
  // Features that the host does not list are tuning flags, or features that every machine of the kind has.
  for (const auto& feature : machine.getEnabledProcessorFeatures())
    if (const auto has = host.find(feature.Key); has != host.end() && !has->second)
      missing.emplace_back(feature.Key);
  return missing;
}

/// The host's features, and with a minus the features that its CPU name implies but this machine lacks:
/// virtual machines hide some.
std::string host_features() {
  std::vector<std::string> words;
  const bool with_amx = allow_amx();
  for (const auto& feature : llvm::sys::getHostCPUFeatures()) {
    const bool denied = !with_amx && feature.first().starts_with("amx");
    if (feature.second) words.push_back((denied ? "-" : "+") + feature.first().str());
  }
  initialise_llvm();
  const auto named =
      subtarget(llvm::Triple(llvm::sys::getDefaultTargetTriple()), llvm::sys::getHostCPUName(), "");
  for (const auto& name : not_on_host(*named)) words.push_back("-" + name);
  return joined(std::move(words));
}

long cache_bytes(int name, long fallback) {
  long bytes = sysconf(name);
  return bytes > 0 ? bytes : fallback;
}

/// Bytes of the last-level cache of the first processor; 0 if the system does not say. For some processors,
/// sysconf() returns the sum over all caches of a level, which no core can use.
long last_cache_bytes() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size");
  long size = 0;
  char unit = 0;
  if (!(file >> size >> unit)) return 0;
  return unit == 'K' ? size << 10 : unit == 'M' ? size << 20 : 0;
}

/// The triple of this machine, except for an x86-64 level on a machine of another architecture.
std::string triple_for(std::string_view cpu) {
  const auto here = llvm::sys::getDefaultTargetTriple();
  return cpu.starts_with("x86-64") && !llvm::Triple(here).isX86() ? "x86_64-unknown-linux-gnu" : here;
}

/// Sets the emitter's properties from the features that LLVM derives from cpu and feature list.
void derive(emitter::Target& target) {
  const llvm::Triple triple(target.triple);
  const auto machine = subtarget(triple, target.cpu, target.features);
  if (triple.isAArch64()) {
    target.vector_bytes = 16;
    target.vector_registers = 32;
    target.fused_multiply_add = target.rounding = target.division = target.half_conversion = true;
    return;
  }
  auto has = [&](const char* features) { return machine->checkFeatures(features); };
  const bool avx512 = has("+avx512f,+avx512bw,+avx512dq,+avx512vl");
  target.vector_bytes = avx512 ? 64 : has("+avx2") ? 32 : 16;
  target.vector_registers = avx512 ? 32 : 16;
  target.masks = target.gathers = avx512;
  target.streaming_stores = target.memory_operands = true;
  target.fused_multiply_add = target.division = has("+fma");
  target.rounding = has("+sse4.1");
  target.half_conversion = has("+f16c");
  target.bf16_dot = has("+avx512bf16");
  target.amx = avx512 && has("+amx-tile,+amx-bf16");
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

bool allow_amx() {
#if defined(__linux__) && defined(__x86_64__)
  static const bool allowed = [] {
    constexpr long request_permission = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
  }();
  return allowed;
#else
  return false;
#endif
}

std::string describe_host() {
  std::string text = "triple=" + llvm::sys::getDefaultTargetTriple();
  text += " cpu=" + llvm::sys::getHostCPUName().str() + " features=" + host_features();
  text += " l1=" + std::to_string(cache_bytes(_SC_LEVEL1_DCACHE_SIZE, 32 << 10));
  text += " l2=" + std::to_string(cache_bytes(_SC_LEVEL2_CACHE_SIZE, 1 << 20));
  long cores = std::max(1L, sysconf(_SC_NPROCESSORS_ONLN));
  // The system reports the whole last-level cache even if this is a small part of a machine whose other parts
  // use the cache, too. No machine has more than this per core.
  constexpr long most_of_core = 32 << 20;
  const long seen = last_cache_bytes();
  const long last = std::min(seen > 0 ? seen : cache_bytes(_SC_LEVEL3_CACHE_SIZE, 0), most_of_core * cores);
  text += " l3=" + std::to_string(std::max(1L << 20, last / cores));
  if (last > 0) text += " last=" + std::to_string(last);
  return text;
}

emitter::Target parse_target(std::string_view description) {
  initialise_llvm();
  emitter::Target target;
  const TargetDescription words(description, "ferrite.cpu/target");
  if (words.words().empty()) return parse_target(describe_host());
  for (const auto& word : words.words()) {
    const auto& [key, value] = word;
    if (key.empty() || key == "cpu")
      target.cpu = value;
    else if (key == "triple")
      target.triple = value;
    else if (key == "features")
      target.features = value;
    else if (key == "l1")
      target.l1_bytes = words.positive(word);
    else if (key == "l2")
      target.l2_bytes = words.positive(word);
    else if (key == "l3")
      target.l3_bytes_per_core = words.positive(word);
    else if (key == "clock")
      target.cycles_per_second = static_cast<double>(words.positive(word));
    else if (key == "last")
      target.last_level_bytes = words.positive(word);
    else
      words.refuse(word, "triple, cpu, features, l1, l2, l3, last, clock, and a cpu's name alone");
  }
  if (target.triple.empty()) target.triple = triple_for(target.cpu);
  derive(target);
  return target;
}

std::string missing_here(std::string_view description) {
  const auto target = parse_target(description);
  const llvm::Triple triple(target.triple), here(llvm::sys::getDefaultTargetTriple());
  if (triple.getArch() != here.getArch() || triple.getOS() != here.getOS())
    return "it is code for " + target.triple + ", this machine is " + here.str();
  auto missing = not_on_host(*subtarget(triple, target.cpu, target.features));
  return missing.empty() ? "" : "this machine has no " + joined(std::move(missing));
}

}  // namespace ferrite::cpu
