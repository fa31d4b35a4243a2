// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How figures and lists of names are written wherever people read them: each figure has its unit.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ferrite::observe {

/// "850 ns", "17.0 us", "1.24 ms", "2.50 s"; three digits, "0 s" for nothing.
std::string time_text(double seconds);
/// "834 to 889 us", "950 us to 1.02 ms": one unit where it is the same.
std::string range_text(double low, double high);
/// "512 B", "4.2 KiB", "1.5 MiB", "2.0 GiB".
std::string size_text(uint64_t bytes);
/// With a unit in thousands: "1.2 k", "3.4 M".
std::string count_text(double count);
/// "12.3 GB/s"; "-" where no time is known.
std::string bandwidth_text(double bytes, double seconds);
/// "45.6 GFLOP/s"; "-" where no time is known.
std::string operations_text(double operations, double seconds);
/// "8.1 %"; of nothing "0.0 %".
std::string share_text(double part, double whole);

/// The names of a list "Conv_3, Relu_4", without the spaces around them.
std::vector<std::string_view> names_in(std::string_view list);
/// The first names of a list, as many as fit into so many columns, one at least: "Conv_3, Relu_4 and 2 more".
/// A single name that does not fit loses its middle.
std::string shortened_names(std::string_view list, size_t columns);

/// The text, or its beginning and "..." where it has more than so many characters.
std::string shortened_end(std::string_view text, size_t columns);

/// The text in lines of so many columns where it can be broken: after a comma, a colon or a semicolon. Each
/// line after the first begins with `indent` spaces.
std::string wrapped(std::string_view text, size_t columns, size_t indent);

}  // namespace ferrite::observe
