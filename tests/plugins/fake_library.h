// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What libraries without a device have in common: they compute in the host's memory, in f64. Every call that
// matters is a line of the file that FAKE_LIBRARY_LOG names. FAKE_LIBRARY_FAIL=FUNCTION:N lets the N-th call
// of a function fail.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

namespace fake {

constexpr int real_32f = 0, real_64f = 1, real_16f = 2, real_16bf = 14, real_16bf_of_cudnn = 9;

inline std::string setting(const char* name, const char* fallback) {
  const char* text = std::getenv(name);
  return text ? text : fallback;
}
inline size_t number(const char* name, const char* fallback) { return std::stoul(setting(name, fallback)); }

/// Writes the line; gives the status that the call is to have.
template <class... Parts>
int called(const char* function, int failure, const char* format, Parts... parts) {
  static std::map<std::string, int> calls;
  const int count = ++calls[function];
  if (const char* path = std::getenv("FAKE_LIBRARY_LOG")) {
    if (FILE* file = std::fopen(path, "a")) {
      std::fprintf(file, "%s", function);
      std::fprintf(file, format, parts...);
      std::fprintf(file, "\n");
      std::fclose(file);
    }
  }
  return setting("FAKE_LIBRARY_FAIL", "") == std::string(function) + ":" + std::to_string(count) ? failure
                                                                                                 : 0;
}

inline double half(uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const double size = exponent == 31  ? (mantissa ? NAN : INFINITY)
                      : exponent == 0 ? std::ldexp(mantissa, -24)
                                      : std::ldexp(mantissa + 1024, exponent - 25);
  return bits & 0x8000 ? -size : size;
}
inline uint16_t to_half(double value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  value = std::fabs(value);
  if (std::isnan(value)) return 0x7e00;
  if (value == 0) return sign;
  if (value >= 65520) return sign | 0x7c00;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int last = std::max(exponent - 11, -24);
  const auto steps = static_cast<uint32_t>(std::nearbyint(std::ldexp(value, -last)));
  return static_cast<uint16_t>(sign + steps + (last > -24 ? static_cast<uint32_t>(last + 24) << 10 : 0));
}
inline double load(const void* data, int type, int64_t at) {
  switch (type) {
    case real_64f: return static_cast<const double*>(data)[at];
    case real_16f: return half(static_cast<const uint16_t*>(data)[at]);
    case real_16bf_of_cudnn:
    case real_16bf:
      return std::bit_cast<float>(static_cast<uint32_t>(static_cast<const uint16_t*>(data)[at]) << 16);
    default: return static_cast<const float*>(data)[at];
  }
}
inline void store(void* data, int type, int64_t at, double value) {
  if (type == real_64f) {
    static_cast<double*>(data)[at] = value;
  } else if (type == real_16f) {
    static_cast<uint16_t*>(data)[at] = to_half(value);
  } else if (type == real_16bf || type == real_16bf_of_cudnn) {
    const auto bits = std::bit_cast<uint32_t>(static_cast<float>(value));
    static_cast<uint16_t*>(data)[at] = static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  } else {
    static_cast<float*>(data)[at] = static_cast<float>(value);
  }
}

}  // namespace fake
