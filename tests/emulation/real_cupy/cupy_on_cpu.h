// What CuPy's generated kernels need besides device.h to be compiled by a C++ compiler.

#pragma once

#include <cassert>
#include <complex>
#include <cstddef>
#include <type_traits>

#define __host__
#define __forceinline__ inline
#define __noinline__
#define __align__(n) alignas(n)
#define __constant__ static const
#define __launch_bounds__(...)

template <class T> using complex = std::complex<T>;
namespace thrust { using ::complex; }
using std::abs; using std::arg; using std::conj; using std::exp; using std::imag; using std::log; using std::pow; using std::real; using std::sqrt;
using std::isfinite; using std::isinf; using std::isnan; using std::signbit;

template <class A, class B> inline auto max(A a, B b) -> typename std::common_type<A, B>::type { return a < b ? b : a; }
template <class A, class B> inline auto min(A a, B b) -> typename std::common_type<A, B>::type { return b < a ? b : a; }
template <class To, class From> inline To of_bits(From x) { To y; std::memcpy(&y, &x, sizeof y); return y; }
inline float __int_as_float(int x) { return of_bits<float>(x); }
inline int __float_as_int(float x) { return of_bits<int>(x); }
inline double __longlong_as_double(unsigned long long x) { return of_bits<double>(x); }
inline long long __double_as_longlong(double x) { return of_bits<long long>(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline void __syncwarp(unsigned) { emulator::wait_for_warp(); }
inline int __clz(int x) { return x ? __builtin_clz(x) : 32; }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline float rsqrt(float x) { return 1 / std::sqrt(x); }
inline double normcdf(double x) { return std::erfc(-x / std::sqrt(2.0)) / 2; }
template <class T> inline T atomicCAS(T* place, T expected, T x) { T old = *place; if (old == expected) *place = x; return old; }
template <class T> inline T atomicExch(T* place, T x) { T old = *place; *place = x; return old; }
inline float atomicAdd(float* place, float x) { return *place += x, *place - x; }
inline double atomicAdd(double* place, double x) { return *place += x, *place - x; }
inline int atomicAdd(int* place, int x) { return *place += x, *place - x; }
inline unsigned long long atomicAdd(unsigned long long* place, unsigned long long x) { return *place += x, *place - x; }

// A number of 16 bits that is computed with as float.
template <class Bits> struct Half {
    unsigned short bits;
    Half() : bits(0) {}
    template <class T, class = typename std::enable_if<std::is_arithmetic<T>::value>::type> Half(T x) : bits(Bits::of(float(x))) {}
    template <class Other> explicit Half(const Half<Other>& x) : bits(Bits::of(float(x))) {}
    operator float() const { return Bits::number(bits); }
    unsigned short to_bits() const { return bits; }
    static Half from_bits(unsigned short x) { Half y; y.bits = x; return y; }
    int iszero() const { return float(*this) == 0; }
    int isnan() const { return std::isnan(float(*this)); }
    int isinf() const { return std::isinf(float(*this)); }
    int isfinite() const { return std::isfinite(float(*this)); }
    int signbit() const { return bits >> 15; }
    template <class T> Half& operator+=(T x) { return *this = Half(float(*this) + float(x)); }
    template <class T> Half& operator-=(T x) { return *this = Half(float(*this) - float(x)); }
    template <class T> Half& operator*=(T x) { return *this = Half(float(*this) * float(x)); }
    template <class T> Half& operator/=(T x) { return *this = Half(float(*this) / float(x)); }
};
struct Bits16 {
    static float number(unsigned short x) { return float(of_bits<_Float16>(x)); }
    static unsigned short of(float x) { return of_bits<unsigned short>(_Float16(x)); }
};
struct BitsBrain {
    static float number(unsigned short x) { return of_bits<float>(unsigned(x) << 16); }
    static unsigned short of(float x) {
        const unsigned whole = of_bits<unsigned>(x);
        return x != x ? 0x7fff : (whole + 0x7fff + (whole >> 16 & 1)) >> 16;
    }
};
typedef Half<Bits16> float16;
typedef Half<BitsBrain> bfloat16;
template <class B> inline int isnan(Half<B> x) { return x.isnan(); }
template <class B> inline int isinf(Half<B> x) { return x.isinf(); }
template <class B> inline int isfinite(Half<B> x) { return x.isfinite(); }
template <class B> inline int signbit(Half<B> x) { return x.signbit(); }
template <class B> inline Half<B> max(Half<B> a, Half<B> b) { return float(a) < float(b) ? b : a; }
template <class B> inline Half<B> min(Half<B> a, Half<B> b) { return float(b) < float(a) ? b : a; }
