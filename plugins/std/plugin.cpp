// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The standard operator library as a plugin: the ops of each family.
#include "common.h"

namespace std_ops = ferrite::standard;

FERRITE_PLUGIN("ferrite.std", "0.1.0", std_ops::add_pointwise, std_ops::add_activation, std_ops::add_view,
               std_ops::add_move, std_ops::add_index, std_ops::add_reduce, std_ops::add_norm,
               std_ops::add_contract, std_ops::add_attention, std_ops::add_convolution, std_ops::add_pool,
               std_ops::add_resize, std_ops::add_quantise, std_ops::add_random, std_ops::add_sort)
