// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A further value of fe_target_numbers::products (target.h).
#ifndef FERRITE_ABI_PRODUCTS_H
#define FERRITE_ABI_PRODUCTS_H

#include "ferrite/abi/target.h"

// With nothing, as FE_PRODUCTS_APART has it; but two of them and a softmax of the rows between them are one kernel where
// find_softmax_products() of ferrite/softmax_products.hpp says that it is one.
#define FE_PRODUCTS_SOFTMAX 2u

#endif
