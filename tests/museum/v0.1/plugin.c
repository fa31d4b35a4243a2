// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// As plugins were written for version 0.1 in C11: the op museum.twice, x + x. This file is not changed
// (tests/museum/README.md).
#include "ferrite/abi/plugin.h"

#include <string.h>

// The codes of prims.def.
enum {
#define FE_PRIM(name, code, ...) PRIM_##name = code,
#include "ferrite/prims.def"
};

static fe_string text(const char* data) {
  fe_string string = {data, strlen(data)};
  return string;
}

static int32_t infer(void* self, fe_call* call, const fe_infer_args* args, fe_infer_out* out) {
  (void)self;
  (void)call;
  const fe_value_view* x = args->op->operands.data;
  return out->add(out->host, &x->type);
}

static int32_t lower(void* self, fe_call* call, const fe_lowering_args* args, fe_none* out) {
  (void)self;
  const fe_lower_api* api = args->lower;
  const fe_value_view* x = args->op->operands.data;
  fe_var vars[16];
  fe_index_token index[16];
  const uint32_t rank = x->type.rank;
  if (rank > 16) {
    call->set_error(call->host, text("museum.c/rank"), text("museum.twice takes up to 16 dimensions"));
    return FE_EUNSUPPORTED;
  }
  for (uint32_t k = 0; k < rank; ++k) {
    fe_var var = {x->type.dims[k], FE_VAR_PARALLEL, 0};
    vars[k] = var;
  }
  fe_token_out token = {sizeof token, 0, 0};
  fe_begin_args begin = {sizeof begin, {vars, rank, sizeof *vars}};
  int32_t status = api->begin(api->self, call, &begin, &token);
  if (status != FE_OK) return status;
  for (uint32_t k = 0; k < rank; ++k) index[k] = token.token + k;

  // Operand 0 is buffer 1, the result is the one behind the operands.
  fe_load_args load = {sizeof load, 1, 0, 0, 0, {index, rank, sizeof *index}};
  status = api->load(api->self, call, &load, &token);
  if (status != FE_OK) return status;
  fe_prim_args sum = {sizeof sum, PRIM_add, token.token, token.token, 0, 0, {0}};
  status = api->prim(api->self, call, &sum, &token);
  if (status != FE_OK) return status;
  fe_store_args store = {sizeof store, 2, token.token, 0, FE_STORE_SET, {index, rank, sizeof *index}};
  status = api->store(api->self, call, &store, out);
  if (status != FE_OK) return status;
  fe_none none = {sizeof none};
  return api->end(api->self, call, &none, out);
}

static fe_operand_def operand;
static fe_op_def op;
static fe_contribution contribution;

static int32_t create(void* self, fe_call* call, const fe_create_args* args, fe_create_out* out) {
  (void)self;
  (void)call;
  (void)args;
  operand.size = sizeof operand;
  operand.name = text("x");
  op.size = sizeof op;
  op.rev = 1;
  op.flags = FE_OP_POINTWISE;
  op.name = text("museum.twice");
  op.doc = text("x + x");
  op.operands.data = &operand;
  op.operands.count = 1;
  op.operands.stride = sizeof operand;
  op.results = 1;
  op.infer = infer;
  op.lower = lower;
  contribution.kind = FE_CONTRIBUTION_OP;
  contribution.table = &op;
  out->contributions.data = &contribution;
  out->contributions.count = 1;
  out->contributions.stride = sizeof contribution;
  return FE_OK;
}

static int32_t destroy(void* self, fe_call* call, const fe_destroy_args* args, fe_none* out) {
  (void)self;
  (void)call;
  (void)args;
  (void)out;
  return FE_OK;
}

__attribute__((visibility("default"))) const fe_plugin_v0* fe_plugin_entry_v0(uint32_t host_minor) {
  static fe_plugin_v0 plugin;
  (void)host_minor;
  plugin.size = sizeof plugin;
  plugin.major = FE_ABI_MAJOR;
  plugin.minor = FE_ABI_MINOR;
  plugin.id = text("museum.c");
  plugin.version = text("1.0.0");
  plugin.create = create;
  plugin.destroy = destroy;
  return &plugin;
}
