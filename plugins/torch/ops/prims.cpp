// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prims that are overloads of ATen under another name. They take arguments of one dtype and one shape, for
// which ATen gives the same results; the tables by topic have the others.
#include "registry.h"

namespace ferrite::from_torch {
namespace {

constexpr OpAlias prims[] = {
    {"prims.abs.default", "aten.abs.default"},
    {"prims.acos.default", "aten.acos.default"},
    {"prims.acosh.default", "aten.acosh.default"},
    {"prims.asin.default", "aten.asin.default"},
    {"prims.asinh.default", "aten.asinh.default"},
    {"prims.atan.default", "aten.atan.default"},
    {"prims.atanh.default", "aten.atanh.default"},
    {"prims.bessel_i0.default", "aten.i0.default"},
    {"prims.bessel_i0e.default", "aten.special_i0e.default"},
    {"prims.bessel_i1.default", "aten.special_i1.default"},
    {"prims.bessel_i1e.default", "aten.special_i1e.default"},
    {"prims.bessel_j0.default", "aten.special_bessel_j0.default"},
    {"prims.bessel_j1.default", "aten.special_bessel_j1.default"},
    {"prims.bitwise_not.default", "aten.bitwise_not.default"},
    {"prims.ceil.default", "aten.ceil.default"},
    {"prims.cos.default", "aten.cos.default"},
    {"prims.cosh.default", "aten.cosh.default"},
    {"prims.digamma.default", "aten.digamma.default"},
    {"prims.erf.default", "aten.erf.default"},
    {"prims.erf_inv.default", "aten.erfinv.default"},
    {"prims.erfc.default", "aten.erfc.default"},
    {"prims.erfcx.default", "aten.special_erfcx.default"},
    {"prims.exp.default", "aten.exp.default"},
    {"prims.exp2.default", "aten.exp2.default"},
    {"prims.expm1.default", "aten.expm1.default"},
    {"prims.floor.default", "aten.floor.default"},
    {"prims.frexp.default", "aten.frexp.Tensor"},
    {"prims.isfinite.default", "aten.isfinite.default"},
    {"prims.lgamma.default", "aten.lgamma.default"},
    {"prims.log.default", "aten.log.default"},
    {"prims.log1p.default", "aten.log1p.default"},
    {"prims.log2.default", "aten.log2.default"},
    {"prims.log10.default", "aten.log10.default"},
    {"prims.ndtri.default", "aten.special_ndtri.default"},
    {"prims.neg.default", "aten.neg.default"},
    {"prims.reciprocal.default", "aten.reciprocal.default"},
    {"prims.round.default", "aten.round.default"},
    {"prims.rsqrt.default", "aten.rsqrt.default"},
    {"prims.sign.default", "aten.sign.default"},
    {"prims.sin.default", "aten.sin.default"},
    {"prims.sinh.default", "aten.sinh.default"},
    {"prims.spherical_bessel_j0.default", "aten.special_spherical_bessel_j0.default"},
    {"prims.sqrt.default", "aten.sqrt.default"},
    {"prims.tan.default", "aten.tan.default"},
    {"prims.tanh.default", "aten.tanh.default"},
    {"prims.trunc.default", "aten.trunc.default"},

    {"prims.add.default", "aten.add.Tensor"},
    {"prims.atan2.default", "aten.atan2.default"},
    {"prims.bitwise_and.default", "aten.bitwise_and.Tensor"},
    {"prims.bitwise_or.default", "aten.bitwise_or.Tensor"},
    {"prims.bitwise_xor.default", "aten.bitwise_xor.Tensor"},
    {"prims.div.default", "aten.div.Tensor"},  // in the result's dtype: integers truncate
    {"prims.eq.default", "aten.eq.Tensor"},
    {"prims.fmax.default", "aten.fmax.default"},
    {"prims.fmin.default", "aten.fmin.default"},
    {"prims.fmod.default", "aten.fmod.Tensor"},
    {"prims.ge.default", "aten.ge.Tensor"},
    {"prims.gt.default", "aten.gt.Tensor"},
    {"prims.hypot.default", "aten.hypot.default"},
    {"prims.le.default", "aten.le.Tensor"},
    {"prims.lt.default", "aten.lt.Tensor"},
    {"prims.maximum.default", "aten.maximum.default"},
    {"prims.minimum.default", "aten.minimum.default"},
    {"prims.mul.default", "aten.mul.Tensor"},
    {"prims.ne.default", "aten.ne.Tensor"},
    {"prims.nextafter.default", "aten.nextafter.default"},
    {"prims.remainder.default", "aten.remainder.Tensor"},
    {"prims.shift_left.default", "aten.bitwise_left_shift.Tensor"},
    {"prims.shift_right_arithmetic.default", "aten.bitwise_right_shift.Tensor"},
    {"prims.sub.default", "aten.sub.Tensor"},
};

}  // namespace

std::span<const OpAlias> aliases() { return prims; }

}  // namespace ferrite::from_torch
