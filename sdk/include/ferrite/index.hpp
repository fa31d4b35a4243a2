// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#pragma once

// The index algebra: integer expressions over symbols with ranges, hash-consed and in canonical form.
//
//   index/pool.hpp      the arena, its node layout, the public interface
//   index/simplify.hpp  the simplifier: each rule `this -> that` is a comment
//   index/walk.hpp      substitution, evaluation, printing, records

#include "ferrite/index/pool.hpp"
#include "ferrite/index/simplify.hpp"
#include "ferrite/index/walk.hpp"
