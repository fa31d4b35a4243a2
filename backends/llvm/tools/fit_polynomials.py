#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fits the minimax polynomials and quotients of them of the vector math and writes vector_math_coefficients.h.

Each polynomial minimises the largest weighted error by the Remez exchange on a dense Chebyshev grid. The weight turns
the polynomial's error into the relative error of the function that uses it. The coefficients are rounded to the
precision they are used in one at a time, lowest power first, and the rest is fitted again after each, so that the
later ones absorb the rounding of the earlier ones. Of a quotient P / Q, both are fitted to 0 ~ P - f Q, weighted by
1 / Q of the fit before (Loeb's algorithm), until Q settles; then Q is rounded, and P fitted to f Q like any other.

Usage: fit_polynomials.py | clang-format > ../vector_math_coefficients.h     (minutes; needs the package mpmath)
"""

from mpmath import mp, mpf

mp.dps = 70
GRID = 1200
BITS = {"f32": 24, "f64": 53}


def round_to(value, bits):
    """Rounds to nearest-even at `bits` bits of significand."""
    with mp.workprec(bits):
        return +value


def remez(values, weights, columns, points):
    """Minimax coefficients for sum(c_k columns[i][k]) ~ values[i] on points; returns (coefficients, max weighted error)."""
    terms = len(columns[0])
    count = terms + 1
    last = len(points) - 1
    reference = [round(last * (1 - mp.cos(mp.pi * i / (count - 1))) / 2) for i in range(count)]
    for i in range(1, count):
        reference[i] = max(reference[i], reference[i - 1] + 1)
    reference = [min(r, last - (count - 1 - i)) for i, r in enumerate(reference)]
    for _ in range(40):
        system = mp.matrix(count, count)
        right = mp.matrix(count, 1)
        for row, index in enumerate(reference):
            for column in range(terms):
                system[row, column] = columns[index][column]
            system[row, count - 1] = (-1) ** row / weights[index]
            right[row] = values[index]
        solution = mp.lu_solve(system, right)
        coefficients = [solution[i] for i in range(terms)]
        level = abs(solution[count - 1])
        errors = [
            (v - sum(c * b for c, b in zip(coefficients, basis))) * w
            for v, basis, w in zip(values, columns, weights)
        ]
        # One extremum for each run of equal sign. Where there are too many, the smallest goes, with its smaller
        # neighbour if it is not at an end, so that the signs still alternate.
        extrema = []
        for index, error in enumerate(errors):
            if extrema and (error > 0) == (errors[extrema[-1]] > 0):
                if abs(error) > abs(errors[extrema[-1]]):
                    extrema[-1] = index
            else:
                extrema.append(index)
        sizes = [abs(errors[index]) for index in extrema]
        while len(extrema) > count:
            smallest = sizes.index(min(sizes))
            if len(extrema) == count + 1:
                smallest = 0 if sizes[0] < sizes[-1] else len(sizes) - 1
            doomed = [smallest]
            if 0 < smallest < len(sizes) - 1:
                doomed.append(smallest - 1 if sizes[smallest - 1] < sizes[smallest + 1] else smallest + 1)
            for index in sorted(doomed, reverse=True):
                del extrema[index], sizes[index]
        worst = max(abs(e) for e in errors)
        if len(extrema) < count or worst <= level * mpf("1.001"):
            return coefficients, worst
        reference = extrema
    return coefficients, worst


def grid(low, high):
    return [
        (low + high) / 2 - (high - low) / 2 * mp.cos(mp.pi * (2 * i + 1) / (2 * GRID)) for i in range(GRID)
    ]


def powers(points, first, behind):
    return [[x**k for k in range(first, behind)] for x in points]


def fit(function, weight, low, high, terms, bits):
    """Fits `terms` coefficients of 1, x, x^2, ... on (low, high), rounded to `bits`."""
    points = grid(low, high)
    remaining = [function(x) for x in points]
    weights = [abs(weight(x)) for x in points]
    result = []
    free, _ = remez(remaining, weights, powers(points, 0, terms), points)
    for power in range(terms):
        if power > 0:
            # Near a zero of the weight the exchange may not settle: the new fit counts only if it is the better one.
            free = free[1:]
            again, worst = remez(remaining, weights, powers(points, power, terms), points)
            kept = [
                abs(v - sum(c * x ** (power + k) for k, c in enumerate(free))) * w
                for v, x, w in zip(remaining, points, weights)
            ]
            if worst < max(kept):
                free = again
        chosen = round_to(free[0], bits)
        result.append(chosen)
        remaining = [v - chosen * x**power for v, x in zip(remaining, points)]
    worst = max(abs(v * w) for v, w in zip(remaining, weights))
    return result, worst


def fit_quotient(function, weight, low, high, terms, bits):
    """As `fit`, the `terms` of the numerator and those of the denominator, which begins with 1."""
    points = grid(low, high)
    values = [function(x) for x in points]
    above, below = powers(points, 0, terms[0]), powers(points, 1, terms[1])
    columns = [[*up, *(-v * x for x in down)] for v, up, down in zip(values, above, below)]
    denominators = [mpf(1)] * len(points)
    for _ in range(8):
        weights = [abs(weight(x)) / q for x, q in zip(points, denominators)]
        coefficients, _ = remez(values, weights, columns, points)
        tail = coefficients[terms[0] :]
        denominators = [1 + sum(c * x for c, x in zip(tail, down)) for down in below]
    denominator = [mpf(1), *(round_to(c, bits) for c in tail)]

    def q(x):
        return sum(c * x**k for k, c in enumerate(denominator))

    numerator, worst = fit(lambda x: function(x) * q(x), lambda x: weight(x) / q(x), low, high, terms[0], bits)
    return numerator, denominator, worst


half_log2 = mp.log(2) / 2 * mpf("1.002")
quarter_pi = mp.pi / 4 * mpf("1.03")
root = mp.sqrt(2)
erf_split = mpf(1)
atanh_limit = ((root - 1) / (root + 1)) ** 2 * mpf("1.001")


def erf_tail(high):
    """-log(erfc(a)) - a^2 on [erf_split, high] in the variable u in [-1, 1], weighted to erf's relative error."""
    middle, radius = (high + erf_split) / 2, (high - erf_split) / 2
    return (
        lambda u: -mp.log(mp.erfc(middle + radius * u)) - (middle + radius * u) ** 2,
        lambda u: mp.erfc(middle + radius * u) / mp.erf(middle + radius * u),
        mpf(-1),
        mpf(1),
    )


def odd(f):
    """(f(x)/x - 1)/z in z = x^2, weighted to f's relative error."""
    return (
        lambda z: (f(mp.sqrt(z)) / mp.sqrt(z) - 1) / z,
        lambda z: z * mp.sqrt(z) / f(mp.sqrt(z)),
    )


# name, what it approximates, (function, weight, low, high) for f32 and f64 (None: not used), number of coefficients for each.
TABLE = [
    ("exp", "(exp(r) - 1 - r) / r^2, |r| <= log(2)/2",
     [(lambda r: (mp.expm1(r) - r) / r**2, lambda r: r**2 / mp.expm1(r), -half_log2, half_log2)] * 2, (5, 11)),
    ("exp2", "(2^r - 1) / r, |r| <= 1/2",
     [(lambda r: mp.expm1(r * mp.log(2)) / r, lambda r: r / mp.power(2, r), mpf("-0.501"), mpf("0.501"))] * 2,
     (6, 12)),
    ("log", "(log(1 + f) - f) / f^2, sqrt(1/2) <= 1 + f <= sqrt(2)",
     [(lambda f: (mp.log1p(f) - f) / f**2, lambda f: f**2 / mp.log1p(f), 1 / root - 1, root - 1)] * 2, (9, 21)),
    ("sin", "(sin(r)/r - 1) / r^2 in r^2, |r| <= pi/4", [(*odd(mp.sin), mpf(0), quarter_pi**2)] * 2, (3, 6)),
    ("cos", "(cos(r) - 1 + r^2/2) / r^4 in r^2, |r| <= pi/4",
     [(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, lambda z: z**2 / mp.cos(mp.sqrt(z)), mpf(0),
       quarter_pi**2)] * 2, (3, 6)),
    ("asin", "(asin(x)/x - 1) / x^2 in x^2, |x| <= 1/2", [(*odd(mp.asin), mpf(0), mpf("0.2501"))] * 2, (5, 13)),
    ("atan", "(atan(x)/x - 1) / x^2 in x^2, |x| <= 1", [(*odd(mp.atan), mpf(0), mpf(1))] * 2, (9, 20)),
    ("erf", "erf(x)/x - 1 in x^2, |x| <= 1",
     [(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)), mpf(0),
       erf_split**2)] * 2, (7, 13)),
    # Weighted to the absolute error of erfc.
    ("erfc_exponent", "-log2(erfc(a)) / a, a in [0, 4]",
     [(lambda a: -mp.log(mp.erfc(a), 2) / a, lambda a: a * mp.log(2) * mp.erfc(a), mpf(0), mpf(4)), None], (8, 0)),
    ("erf_tail", "-log(erfc(a)) - a^2, a in [1, 6], in u in [-1, 1]", [None, erf_tail(mpf(6))], (0, 18)),
    ("atanh", "(atanh(s)/s - 1 - s^2/3) / s^4 in s^2, |s| <= 0.1716",
     [(lambda z: (mp.atanh(mp.sqrt(z)) / mp.sqrt(z) - 1 - z / 3) / z**2, lambda z: z**2, mpf(0), atanh_limit)] * 2,
     (3, 8)),
]

# The same for f32 alone, of quotients: number of coefficients above and below.
QUOTIENTS = [
    # Weighted to the absolute error of erf, which is 1 to half a unit in the last place beyond the range.
    ("erf_quotient", "erf(x)/x in x^2, |x| <= 3.92",
     (lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z), lambda z: mp.sqrt(z), mpf(0), mpf("3.92") ** 2), (6, 6)),
]


def print_table(name, meaning, values, worst):
    if worst is not None:
        print(f"/// {meaning}; the largest weighted error is 2^{float(mp.log(worst, 2)):.1f}.")
    print(f"inline constexpr double k{''.join(part.capitalize() for part in name.split('_'))}[] = {{")
    for value in values:
        print(f"    {float(value).hex()},")
    print("};\n", flush=True)


def main():
    print("// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception")
    print("// Generated by tools/fit_polynomials.py: do not edit. Lowest power first.")
    print("#pragma once\n")
    print("namespace ferrite::emitter::coefficients {\n")
    for name, meaning, ranges, terms in TABLE:
        for (kind, bits), arguments, count in zip(BITS.items(), ranges, terms):
            if arguments is None:
                continue
            values, worst = fit(*arguments, count, bits)
            print_table(f"{name}_{kind}", meaning, values, worst)
    for name, meaning, arguments, terms in QUOTIENTS:
        above, below, worst = fit_quotient(*arguments, terms, BITS["f32"])
        print_table(f"{name}_above_f32", meaning, above, worst)
        print_table(f"{name}_below_f32", meaning, below, None)
    print("}  // namespace ferrite::emitter::coefficients")


if __name__ == "__main__":
    main()
