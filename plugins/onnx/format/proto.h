// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The generated classes of the ONNX format, included without their warnings.
#pragma once

#pragma GCC system_header
#include <onnx/onnx_pb.h>
