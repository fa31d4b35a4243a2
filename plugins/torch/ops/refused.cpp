// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Overloads of core ATen and of the prims that are refused by name.
#include "registry.h"

namespace ferrite::from_torch {
namespace {

constexpr std::string_view dims_of_values = "the dims of its result depend on the values of its argument";
constexpr std::string_view number_of_values = "its result is a number that depends on the values of a tensor";
constexpr std::string_view complex = "complex numbers are not supported";
constexpr std::string_view writes =
    "it writes into its argument; export the program with run_decompositions(), which leaves no such calls";
constexpr std::string_view of_sizes =
    "its result is a size; export the program without dynamic_shapes, once for each size";

constexpr Refusal refused_overloads[] = {
    {"aten.nonzero.default", dims_of_values},
    {"aten.masked_select.default", dims_of_values},
    {"aten._local_scalar_dense.default", number_of_values},
    {"aten.item.default", number_of_values},
    {"prims.item.default", number_of_values},
    {"aten._fft_r2c.default", complex},
    {"aten._fft_c2r.default", complex},
    {"aten._fft_c2c.default", complex},
    {"prims.fft_r2c.default", complex},
    {"prims.fft_c2r.default", complex},
    {"prims.fft_c2c.default", complex},
    {"prims.conj.default", complex},
    {"prims.conj_physical.default", complex},
    {"prims.imag.default", complex},
    {"prims.real.default", complex},
    {"aten.atan2.out", writes},
    {"aten.resize_.default", writes},
    {"prims.copy_to.default", writes},
    {"prims.resize.default", writes},
    {"aten.sym_numel.default", of_sizes},
    {"aten.sym_size.int", of_sizes},
    {"aten.sym_storage_offset.default", of_sizes},
    {"aten.sym_stride.int", of_sizes},
    {"prims.maximum_value.default", "its result is a number, and no tensor"},
    {"prims.minimum_value.default", "its result is a number, and no tensor"},
};

}  // namespace

std::span<const Refusal> refusals() { return refused_overloads; }

}  // namespace ferrite::from_torch
