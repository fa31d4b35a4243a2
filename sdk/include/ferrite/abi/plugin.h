// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The entry of a plugin: one exported symbol that only returns a description; create() activates the plugin.
#ifndef FERRITE_ABI_PLUGIN_H
#define FERRITE_ABI_PLUGIN_H

#include "ferrite/abi/advice.h"
#include "ferrite/abi/base.h"
#include "ferrite/abi/contrib.h"
#include "ferrite/abi/importer.h"
#include "ferrite/abi/provider.h"
#include "ferrite/abi/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

#define FE_LOG_ERROR 0u
#define FE_LOG_WARNING 1u
#define FE_LOG_INFO 2u
#define FE_LOG_DEBUG 3u
// Arguments of fe_host.log.
typedef struct fe_log_args {
  uint64_t size;
  uint32_t level;  // FE_LOG_*
  uint32_t reserved;
  fe_string channel;  // one of the host's log channels, such as "plugins"
  fe_string text;     // one or more lines for people
} fe_log_args;

// fn(context, begin, end, worker) is called for disjoint ranges that cover [0, count). Each range has at
// least `grain` items, except the last. Returns when all calls have returned.
typedef struct fe_parallel_args {
  uint64_t size;
  int64_t count;
  int64_t grain;
  int64_t workers;  // at most this many; 0 = all
  void* context;    // the first argument of fn; may be null
  void (*fn)(void* context, int64_t begin, int64_t end, int64_t worker);
} fe_parallel_args;
typedef struct fe_workers_out {
  uint64_t size;
  int64_t workers;  // number of workers of the host's pool, including the caller
} fe_workers_out;

// Services of the host, any-thread. Lives from create to destroy.
typedef struct fe_host {
  uint64_t size;
  uint32_t rev;
  uint32_t minor;  // minor version of the ABI
  void* self;
  fe_string version;  // Ferrite's version, "0.1.0"
  int32_t (*log)(void* self, fe_call*, const fe_log_args*, fe_none*);
  int32_t (*parallel_for)(void* self, fe_call*, const fe_parallel_args*, fe_none*);
  int32_t (*workers)(void* self, fe_call*, const fe_none*, fe_workers_out*);
} fe_host;

#define FE_CONTRIBUTION_OP 1u               // fe_op_def
#define FE_CONTRIBUTION_LOWERING 2u         // fe_lowering
#define FE_CONTRIBUTION_RULES 3u            // fe_rule_set
#define FE_CONTRIBUTION_PASS 4u             // fe_pass
#define FE_CONTRIBUTION_PROVIDER 5u         // fe_provider
#define FE_CONTRIBUTION_RUNTIME 6u          // fe_runtime
#define FE_CONTRIBUTION_IMPORTER 7u         // fe_importer
#define FE_CONTRIBUTION_DECOMPOSITION 8u    // fe_decomposition
#define FE_CONTRIBUTION_FUSION_POLICY 9u    // fe_fusion_policy
#define FE_CONTRIBUTION_COST_MODEL 10u      // fe_cost_model
#define FE_CONTRIBUTION_METRIC_SINK 11u     // fe_metric_sink
#define FE_CONTRIBUTION_IMPORT_HANDLER 12u  // fe_import_handler

// One contribution of a plugin.
typedef struct fe_contribution {
  uint32_t kind;  // FE_CONTRIBUTION_*
  uint32_t reserved;
  const void* table;  // the table for the kind; owned by the plugin, lives until destroy
} fe_contribution;

// `config`: the manifest's [plugin.<id>] table as attributes; nested keys are joined with dots ("tile.m").
typedef struct fe_create_args {
  uint64_t size;
  const fe_host* host;  // lives until destroy
  fe_array config;      // of fe_attr
} fe_create_args;
typedef struct fe_create_out {
  uint64_t size;
  void* instance;          // the plugin's own; passed to destroy; may be null
  fe_array contributions;  // of fe_contribution; owned by the plugin, lives until destroy
} fe_create_out;
typedef struct fe_destroy_args {
  uint64_t size;
  void* instance;  // from create
} fe_destroy_args;

// The description of a plugin. It lives as long as the library is loaded.
typedef struct fe_plugin_v0 {
  uint64_t size;
  uint32_t major;  // version of the ABI: 0
  uint32_t minor;
  void* self;         // the first argument of the slots; may be null
  fe_string id;       // "acme.fuse"
  fe_string version;  // of the plugin, "1.2.0"
  // Fills `contributions`; called once per session.
  int32_t (*create)(void* self, fe_call*, const fe_create_args*, fe_create_out*);
  // Frees the instance and all its tables.
  int32_t (*destroy)(void* self, fe_call*, const fe_destroy_args*, fe_none*);
} fe_plugin_v0;

// The type of the exported function FE_PLUGIN_ENTRY. Null: the plugin does not support the host's version.
typedef const fe_plugin_v0* (*fe_plugin_entry_v0_fn)(uint32_t host_minor);
#define FE_PLUGIN_ENTRY "fe_plugin_entry_v0"

#ifdef __cplusplus
}
#endif
#endif
