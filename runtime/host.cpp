// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "runtime/host.h"

#include "core/support/abi/abi.h"
#include "core/support/warning.h"
#include "runtime/pool.h"

namespace ferrite::core::plugin {

std::unique_ptr<fe_host> make_host() {
  auto host = std::make_unique<fe_host>(abi::sized<fe_host>());
  host->rev = 1;
  host->minor = FE_ABI_MINOR;
  host->version = abi::string(FERRITE_VERSION);
  host->log = [](void*, fe_call*, const fe_log_args* args, fe_none*) -> int32_t {
    auto channel = abi::view(args->channel);
    if (args->level == FE_LOG_WARNING)
      log::warn(channel, abi::view(args->text));
    else if (args->level < FE_LOG_WARNING || log::enabled(channel))
      log::write(channel, abi::view(args->text));
    return FE_OK;
  };
  host->parallel_for = [](void*, fe_call*, const fe_parallel_args* args, fe_none*) -> int32_t {
    runtime::Pool::process().parallel_for(args->count, args->grain, args->workers, args->context, args->fn);
    return FE_OK;
  };
  host->workers = [](void*, fe_call*, const fe_none*, fe_workers_out* out) -> int32_t {
    out->workers = runtime::Pool::process().workers();
    return FE_OK;
  };
  return host;
}

}  // namespace ferrite::core::plugin
