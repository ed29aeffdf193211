// The kernels of cuda.py that memory bandwidth bounds: each reads and writes its arrays once.
//
// T is the type in memory: bf16, float or double.  W = Wide<T> is the type of arithmetic, sums and statistics: float,
// float, double.  Every sum is taken in an order that depends on shapes alone, so two runs give the same bits.
// reference.py defines each kernel under the same name.
//
// This file includes no header, so it compiles with NVRTC, with nvcc, and for tests with a C++ compiler.

#ifndef DYNAMIC_SHARED
#define DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#endif

// ---- Numbers -------------------------------------------------------------------------------------------------------

typedef unsigned long long u64;
typedef long long i64;

struct bf16 {  // the upper half of a float
    unsigned short bits;
    bf16() = default;
    __device__ bf16(float x) {
#if __CUDA_ARCH__ >= 800  // Turing has no such instruction
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
#else
        unsigned whole = __float_as_uint(x);
        bits = x != x ? 0x7fff : (whole + 0x7fff + (whole >> 16 & 1)) >> 16;  // to nearest, ties to even
#endif
    }
    __device__ operator float() const { return __uint_as_float(unsigned(bits) << 16); }
};

template <class T> struct WideOf { typedef float type; };
template <> struct WideOf<double> { typedef double type; };
template <class T> using Wide = typename WideOf<T>::type;

template <class W> __device__ inline W infinity() { return W(__uint_as_float(0x7f800000)); }
template <class W> __device__ inline W not_a_number() { return W(__uint_as_float(0x7fc00000)); }

__device__ inline float exponential(float x) { return expf(x); }
__device__ inline double exponential(double x) { return exp(x); }
#ifdef __CUDACC__
__device__ inline float power_of_two(float x) {  // to 2 units in the last place; 2^0 = 1 and 2^-∞ = 0 exactly
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#else
__device__ inline float power_of_two(float x) { return exp2f(x); }
#endif
__device__ inline double power_of_two(double x) { return exp2(x); }
constexpr double LOG2_E = 1.4426950408889634;
__device__ inline float logarithm(float x) { return logf(x); }
__device__ inline double logarithm(double x) { return log(x); }
__device__ inline float square_root(float x) { return sqrtf(x); }
__device__ inline double square_root(double x) { return sqrt(x); }
#ifdef __CUDA_ARCH__  // a · b, rounded: never one instruction with a sum that follows
__device__ inline float rounded_product(float a, float b) { return __fmul_rn(a, b); }
__device__ inline double rounded_product(double a, double b) { return __dmul_rn(a, b); }
#else
template <class W> __device__ inline W rounded_product(W a, W b) { volatile W product = a * b; return product; }
#endif
__device__ inline float maximum(float a, float b) { return fmaxf(a, b); }  // the number, if one is NaN
__device__ inline double maximum(double a, double b) { return fmax(a, b); }

template <class W> __device__ inline W warp_sum(W x) {
    for (int step = 16; step; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

// ---- Groups of sixteen elements: as many as one call of the random generator has bits for ---------------------------

const int GROUP = 16;
template <class T> constexpr int VECTOR = 16 / sizeof(T);  // elements that one instruction loads

template <class T, int SIZE = GROUP> struct alignas(16) Group {
    T at[SIZE];
    __device__ Wide<T> wide(int i) const {  // of two bf16 in a word, each is one instruction away
        const unsigned pair = ((const unsigned*)at)[i / 2];
        return sizeof(T) > 2 ? Wide<T>(at[i]) : __uint_as_float(i % 2 ? pair & 0xffff0000 : pair << 16);
    }
};

// 16 bytes at a time: what a copy of the structure would not be.
template <class T, int SIZE> __device__ inline void copy_group(Group<T, SIZE>* to, const Group<T, SIZE>* from) {
#pragma unroll
    for (int i = 0; i < SIZE / VECTOR<T>; i++) ((uint4*)to)[i] = ((const uint4*)from)[i];
}

// The first `count` elements at `from`, then zeros.
template <int SIZE = GROUP, class T> __device__ inline Group<T, SIZE> load_group(const T* from, i64 count) {
    Group<T, SIZE> group;
    if (count >= SIZE && (u64)from % 16 == 0) {
        copy_group(&group, (const Group<T, SIZE>*)from);
    } else {
#pragma unroll
        for (int i = 0; i < SIZE; i++) group.at[i] = i < count ? from[i] : T(0.0f);
    }
    return group;
}

template <class T, int SIZE> __device__ inline void store_group(T* to, i64 count, const Group<T, SIZE>& group) {
    if (count >= SIZE && (u64)to % 16 == 0) {
        copy_group((Group<T, SIZE>*)to, &group);
    } else {
#pragma unroll
        for (int i = 0; i < SIZE; i++)
            if (i < count) to[i] = group.at[i];
    }
}

// Numbers rounded to T, two by one instruction if that is bf16.
template <class T, int SIZE> __device__ inline Group<T, SIZE> rounded(const Wide<T> (&x)[SIZE]) {
    Group<T, SIZE> group;
#pragma unroll
    for (int i = 0; i < SIZE; i++) {
#if __CUDA_ARCH__ >= 800
        if (sizeof(T) == 2 && i % 2 == 0)
            asm("cvt.rn.bf16x2.f32 %0, %1, %2;"
                : "=r"(((unsigned*)&group)[i / 2]) : "f"(float(x[i + 1])), "f"(float(x[i])));
        if (sizeof(T) == 2) continue;
#endif
        group.at[i] = T(x[i]);
    }
    return group;
}

// 16 bytes of memory to shared memory, or zeros, while the thread goes on: those that it copied are there after its
// wait_for_copies, those of other threads after a barrier too.
__device__ inline void copy_or_clear(void* to, const void* from, bool copies) {
#if __CUDA_ARCH__ >= 800
    const unsigned place = __cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(copies ? 16 : 0)
                 : "memory");
#elif defined(__CUDACC__)  // Turing has no such instruction
    *(uint4*)to = copies ? *(const uint4*)from : uint4();
#else
    emulated_copy(to, from, copies ? 16 : 0);
#endif
}

__device__ inline void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#elif !defined(__CUDACC__)
    emulated_wait();
#endif
}

// ---- Random numbers (autograd/random.py) -----------------------------------------------------------------------------

struct Drop {  // one dropout mask
    u64 seed, step, site;
    u64 first;       // position in the mask of the kernel's position 0
    double scale;    // 1 / P(keep)
    unsigned below;  // elements whose 16 random bits are less are dropped; 0: no dropout
    unsigned unused;
    const u64* now;  // where the step is instead, for launches that are repeated in other steps; or null
};

// Philox4x64-10: 256 random bits from the key (seed, site) and the counter (block, step, 0, 0).
__device__ inline void philox(const Drop& drop, u64 block, u64 (&x)[4]) {
    u64 key0 = drop.seed, key1 = drop.site;
    x[0] = block, x[1] = drop.now ? *drop.now : drop.step, x[2] = 0, x[3] = 0;
    for (int round = 0; round < 10; round++) {
        const u64 a = 0xD2E7470EE14C6C93ull, b = 0xCA5A826395121157ull;
        const u64 low0 = a * x[0], high0 = __umul64hi(a, x[0]), low1 = b * x[2], high1 = __umul64hi(b, x[2]);
        x[0] = high1 ^ x[1] ^ key0, x[1] = low1, x[2] = high0 ^ x[3] ^ key1, x[3] = low0;
        key0 += 0x9E3779B97F4A7C15ull, key1 += 0xBB67AE8584CAA73Bull;
    }
}

// Which elements of a block of 16 are kept, a bit each.
__device__ inline unsigned keep_block(const Drop& drop, u64 block) {
    u64 words[4];
    philox(drop, block + 1, words);
    unsigned bits = 0;
#pragma unroll
    for (int i = 0; i < GROUP; i++) bits |= unsigned((words[i / 4] >> 16 * (i % 4) & 0xffff) >= drop.below) << i;
    return bits;
}

// Elements position … position + 15 of the mask, which may be parts of two blocks; a bit each, 1 if kept.
__device__ inline unsigned keep_bits(const Drop& drop, u64 position) {
    position += drop.first;
    const u64 block = position / GROUP;
    const int skipped = position % GROUP;
    unsigned bits = 0;
#pragma unroll 1
    for (int i = 0; i < (skipped ? 2 : 1); i++) bits |= keep_block(drop, block + i) << GROUP * i;
    return bits >> skipped & 0xffff;
}

// x · scale where kept, else 0.
template <class W> __device__ inline W dropped(W x, unsigned bits, int i, const Drop& drop) {
    return bits >> i & 1 ? x * W(drop.scale) : W(0);
}

template <class T> __global__ void dropout(const T* x, T* y, i64 size, Drop drop) {
    const i64 start = (blockIdx.x * i64(blockDim.x) + threadIdx.x) * GROUP;
    if (start >= size) return;
    Group<T> group = load_group(x + start, size - start);
    const unsigned bits = keep_bits(drop, start);
#pragma unroll
    for (int i = 0; i < GROUP; i++) group.at[i] = T(dropped(Wide<T>(group.at[i]), bits, i, drop));
    store_group(y + start, size - start, group);
}

// ---- Sums of rows, and the gradient before ReLU ----------------------------------------------------------------------

// g_x = g_y where y > 0, else 0, and the sum of its rows; without y, the sum of those of g_y.  Block (c, b): 32 lanes ×
// 8 warps; a lane takes 16 columns of every gridDim.y · 8-th row.  The last block to end of each c, by the count in
// `done`, adds up partial, [b, c, 512].
template <class T>
__global__ void relu_backward_sum(const T* g_y, const T* y, T* g_x, Wide<T>* partial, unsigned* done, Wide<T>* total,
                                  i64 rows, int width) {
    typedef Wide<T> W;
    __shared__ bool is_last;
    DYNAMIC_SHARED(memory);
    W* sums = (W*)memory;  // [8, HELD]: column 16 l + i of the block stands at 32 i + l, for lanes side by side
    const int HELD = 32 * GROUP, first = blockIdx.x * HELD, column = first + threadIdx.x * GROUP;
    const int thread = threadIdx.y * 32 + threadIdx.x;
    const int AHEAD = sizeof(T) < 8 ? 8 / sizeof(T) : 1;  // rows whose loads are on their way together
    const i64 step = gridDim.y * i64(8);
    W sum[GROUP] = {};
    i64 row = blockIdx.y * i64(8) + threadIdx.y;
    for (; !y && row < rows; row += AHEAD * step) {
        Group<T> g[AHEAD];
#pragma unroll
        for (int j = 0; j < AHEAD; j++) {
            const i64 at = row + j * step;
            g[j] = load_group(g_y + at * width + column, at < rows ? width - column : 0);
        }
#pragma unroll
        for (int j = 0; j < AHEAD; j++)
#pragma unroll
            for (int i = 0; i < GROUP; i++) sum[i] += W(g[j].at[i]);
    }
    for (; row < rows; row += step) {
        const i64 place = row * width + column;
        Group<T> g = load_group(g_y + place, width - column);
        const Group<T> above = load_group(y + place, width - column);
#pragma unroll
        for (int i = 0; i < GROUP; i++) {
            if (!(W(above.at[i]) > 0)) g.at[i] = T(0.0f);
            sum[i] += W(g.at[i]);
        }
        store_group(g_x + place, width - column, g);
    }
#pragma unroll
    for (int i = 0; i < GROUP; i++) sums[threadIdx.y * HELD + i * 32 + threadIdx.x] = sum[i];
    __syncthreads();
    W* parts = partial + blockIdx.x * HELD;
    const i64 apart = i64(gridDim.x) * HELD;
    for (int at = thread; at < HELD; at += 256) {
        W mine = 0;
        for (int warp = 0; warp < 8; warp++) mine += sums[warp * HELD + at];
        parts[blockIdx.y * apart + at] = mine;
    }
    __threadfence();
    __syncthreads();
    if (thread == 0) is_last = atomicAdd(done + blockIdx.x, 1u) == gridDim.y - 1;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    if (thread == 0) done[blockIdx.x] = 0;  // for the next launch
    for (int at = thread; at < HELD; at += 256) {
        const int to = first + at % 32 * GROUP + at / 32;
        volatile W* theirs = parts + at;  // of other blocks: to be read from memory
        W all = 0;
#pragma unroll 16
        for (int part = 0; part < gridDim.y; part++) all += theirs[part * apart];
        if (to < width) total[to] = all;
    }
}

// ---- Layer normalisation ---------------------------------------------------------------------------------------------
// A warp takes a row, a lane GROUPS times 16 of its columns, in registers.  Rows are `stride` elements apart, a multiple
// of 16 bytes; zeros fill them up.  Block: 32 lanes × some warps.

[[maybe_unused]] const int SPAN = 32 * GROUP;  // columns that the lanes of a warp take together

// The column of a lane's element i of group k: 16 bytes a lane, side by side, so that memory sees no gaps.
template <class T> __device__ inline int column_of(int k, int i) {
    const int N = VECTOR<T>;
    return k * SPAN + i / N * 32 * N + threadIdx.x * N + i % N;
}

template <class T> struct Share {  // a lane's elements of a group, in words
    uint4 words[GROUP / VECTOR<T>];
    __device__ Wide<T> operator[](int i) const { return ((const Group<T>*)words)->wide(i); }
};

template <class T> __device__ inline void load_share(Share<T>& share, const T* row, int k, int stride) {
    const uint4 zeros = {};
#pragma unroll
    for (int i = 0; i < GROUP; i += VECTOR<T>)
        share.words[i / VECTOR<T>] = column_of<T>(k, i) < stride ? *(const uint4*)(row + column_of<T>(k, i)) : zeros;
}

template <class T> __device__ inline void store_share(T* row, int k, int stride, const Wide<T> (&x)[GROUP]) {
    const Group<T> group = rounded<T>(x);
#pragma unroll
    for (int i = 0; i < GROUP; i += VECTOR<T>)
        if (column_of<T>(k, i) < stride) *(uint4*)(row + column_of<T>(k, i)) = ((const uint4*)&group)[i / VECTOR<T>];
}

// The parameters of these columns, from shared memory.
template <class T, class W> __device__ inline void read_share(W (&x)[GROUP], const W* from, int k) {
    typedef Group<W, VECTOR<T>> Part;
#pragma unroll
    for (int i = 0; i < GROUP; i += VECTOR<T>) copy_group((Part*)&x[i], (const Part*)(from + column_of<T>(k, i)));
}

// Parameters of a row to shared memory, with zeros up to a multiple of SPAN.
template <class W> __device__ inline void copy_parameters(W* to, const W* from, int width, int groups) {
    const int thread = threadIdx.y * 32 + threadIdx.x;
    for (int i = thread; i < groups * SPAN; i += 32 * blockDim.y) to[i] = i < width ? from[i] : W(0);
}

// Which of these elements are kept, in a row at `position` of the mask.  The 16 columns of a call of the random
// generator belong to several lanes: each makes one of the calls, and they exchange the bits.
template <class T> __device__ inline unsigned keep_share(const Drop& drop, i64 position, int k, int width) {
    const int N = VECTOR<T>, LANES = GROUP / N, part = threadIdx.x % LANES;
    const int column = k * SPAN + (part * (32 / LANES) + threadIdx.x / LANES) * GROUP;
    const unsigned drawn = column < width ? keep_bits(drop, position + column) : 0;
    unsigned bits = 0;
#pragma unroll
    for (int step = 0; step < LANES; step++) {
        const unsigned other = step ? __shfl_xor_sync(0xffffffffu, drawn, step) : drawn;
        bits |= (other >> part * N & ((1 << N) - 1)) << (part ^ step) * N;
    }
    return bits;
}

// y = x̂ · weight + bias with x̂ = (z - mean z) / σ and z = residual + dropout(x); residual may be null.
template <class T, int GROUPS>
__global__ __launch_bounds__(128, GROUPS * sizeof(T) == 2 ? 6 : 1)
void layer_norm(const T* x, const T* residual, const Wide<T>* weight, const Wide<T>* bias, T* y, T* normalised,
                Wide<T>* inverse_std, i64 rows, int width, int stride, Wide<T> eps, Drop drop) {
    typedef Wide<T> W;
    DYNAMIC_SHARED(memory);
    W *weights = (W*)memory, *biases = weights + GROUPS * SPAN;
    copy_parameters(weights, weight, width, GROUPS);
    copy_parameters(biases, bias, width, GROUPS);
    __syncthreads();
    const W share = W(1) / width;
    for (i64 row = blockIdx.x * i64(blockDim.y) + threadIdx.y; row < rows; row += i64(gridDim.x) * blockDim.y) {
        const i64 place = row * stride;
        W z[GROUPS][GROUP], sum = 0, squares = 0;
#pragma unroll
        for (int k = 0; k < GROUPS; k++) {
            Share<T> in, beside;
            load_share(in, x + place, k, stride);
            if (residual) load_share(beside, residual + place, k, stride);
            const unsigned bits = drop.below ? keep_share<T>(drop, row * width, k, width) : 0;
#pragma unroll
            for (int i = 0; i < GROUP; i++) {
                z[k][i] = drop.below ? dropped(in[i], bits, i, drop) : in[i];
                if (residual) z[k][i] += beside[i];
                sum += z[k][i];
            }
        }
        const W mean = warp_sum(sum) * share;
#pragma unroll
        for (int k = 0; k < GROUPS; k++)
#pragma unroll
            for (int i = 0; i < GROUP; i++) {
                z[k][i] -= mean;
                if (column_of<T>(k, i) < width) squares += z[k][i] * z[k][i];
            }
        const W inverse = 1 / square_root(warp_sum(squares) * share + eps);
        if (threadIdx.x == 0) inverse_std[row] = inverse;
#pragma unroll
        for (int k = 0; k < GROUPS; k++) {
            W w[GROUP], b[GROUP];
            read_share<T>(w, weights, k), read_share<T>(b, biases, k);
#pragma unroll
            for (int i = 0; i < GROUP; i++) z[k][i] *= inverse, b[i] += z[k][i] * w[i];
            store_share(normalised + place, k, stride, z[k]);
            store_share(y + place, k, stride, b);
        }
    }
}

// Groups of columns that a block of layer_norm_backward sums: registers hold the sums of one group in double.
template <class W> __device__ constexpr int sums_held(int groups) { return sizeof(W) == 8 ? 1 : groups; }

// g_z, and with dropout g_x, which is otherwise the same.  Block (b, c) sums rows b, b + gridDim.x, … (times the warps)
// in partial[b], [2, GROUPS · SPAN]: its part of the gradients of weight and bias, in the columns that it holds.
// The last block to end of each TOGETHER neighbours, by the counts in `done`, adds theirs up, and the last of these
// blocks the sums of all: which block that is decides no bit.
// Block: up to 32 × 8, two a multiprocessor if rows are narrow.
template <class T, int GROUPS>
__global__ __launch_bounds__(256, GROUPS * sizeof(Wide<T>) == 4 ? 2 : 1)
void layer_norm_backward(const T* g_y, const T* normalised, const Wide<T>* inverse_std, const Wide<T>* weight, T* g_z,
                         T* g_x, Wide<T>* partial, unsigned* done, Wide<T>* total_weight, Wide<T>* total_bias,
                         i64 rows, int width, int stride, Drop drop) {
    typedef Wide<T> W;
    __shared__ bool is_last;
    DYNAMIC_SHARED(memory);
    W *weights = (W*)memory, *parts = weights + GROUPS * SPAN;  // [GROUPS · SPAN], [warps, SPAN]
    // Registers hold the sums, and the row if there are enough of them, and the next row, on its way from memory.
    const bool KEPT = GROUPS * sizeof(W) < 16, AHEAD = KEPT && sizeof(T) == 2;
    const int SUMS = sums_held<W>(GROUPS);  // groups whose sums this block holds: those from blockIdx.y · SUMS on
    W g_weight[SUMS][GROUP] = {}, g_bias[SUMS][GROUP] = {};
    Share<T> g[KEPT ? GROUPS : 1], hat[KEPT ? GROUPS : 1], next_g[GROUPS], next_hat[GROUPS];
    W next_inverse;
    const i64 step = i64(gridDim.x) * blockDim.y;
    const W share = W(1) / width;
    const auto fetch = [&](i64 row) {
        if (row >= rows) row = rows - 1;
        next_inverse = inverse_std[row];
#pragma unroll
        for (int k = 0; k < GROUPS; k++) {
            load_share(next_g[k], g_y + row * stride, k, stride);
            load_share(next_hat[k], normalised + row * stride, k, stride);
        }
    };
    i64 row = blockIdx.x * i64(blockDim.y) + threadIdx.y;
    if (AHEAD) fetch(row);
    copy_parameters(weights, weight, width, GROUPS);
    __syncthreads();
    for (; row < rows; row += step) {
        const i64 place = row * stride;
        W sum = 0, along = 0;
        if (!AHEAD) fetch(row);
        const W inverse = next_inverse;
#pragma unroll
        for (int k = 0; KEPT && k < GROUPS; k++) g[k] = next_g[k], hat[k] = next_hat[k];
        if (AHEAD) fetch(row + step);
#pragma unroll
        for (int k = 0; k < GROUPS; k++) {
            const int at = KEPT ? k : 0;
            if (!KEPT) load_share(g[0], g_y + place, k, stride), load_share(hat[0], normalised + place, k, stride);
            W w[GROUP];
            read_share<T>(w, weights, k);
            const bool mine = SUMS == GROUPS || k / SUMS == int(blockIdx.y);
#pragma unroll
            for (int i = 0; i < GROUP; i++) {
                const W g_i = g[at][i], hat_i = hat[at][i];
                sum += g_i * w[i], along += g_i * w[i] * hat_i;
                if (mine) g_weight[k % SUMS][i] += g_i * hat_i, g_bias[k % SUMS][i] += g_i;
            }
        }
        if (blockIdx.y) continue;  // the first block of a row writes its gradient
        sum = warp_sum(sum) * inverse * share, along = warp_sum(along) * inverse * share;
#pragma unroll
        for (int k = 0; k < GROUPS; k++) {
            const int at = KEPT ? k : 0;
            if (!KEPT) load_share(g[0], g_y + place, k, stride), load_share(hat[0], normalised + place, k, stride);
            W w[GROUP], out[GROUP];
            read_share<T>(w, weights, k);
            const unsigned bits = drop.below ? keep_share<T>(drop, row * width, k, width) : 0;
#pragma unroll
            for (int i = 0; i < GROUP; i++) out[i] = g[at][i] * w[i] * inverse - (hat[at][i] * along + sum);
            store_share(g_z + place, k, stride, out);
            if (!drop.below) continue;
#pragma unroll
            for (int i = 0; i < GROUP; i++) out[i] = dropped(out[i], bits, i, drop);
            store_share(g_x + place, k, stride, out);
        }
    }
    const int HELD = SUMS * SPAN, first = blockIdx.y * HELD;
    const int thread = threadIdx.y * 32 + threadIdx.x, threads = 32 * blockDim.y;
    partial += first;  // block `b`, side 0 or 1: at (2 · b + side) · GROUPS · SPAN
#pragma unroll
    for (int k = 0; k < SUMS; k++)
#pragma unroll
        for (int side = 0; side < 2; side++) {
            __syncthreads();
#pragma unroll
            for (int i = 0; i < GROUP; i++)
                parts[threadIdx.y * SPAN + column_of<T>(0, i)] = side ? g_bias[k][i] : g_weight[k][i];
            __syncthreads();
            for (int i = thread; i < SPAN; i += threads) {
                W sum = 0;
                for (int warp = 0; warp < blockDim.y; warp++) sum += parts[warp * SPAN + i];
                partial[(blockIdx.x * i64(2) + side) * GROUPS * SPAN + k * SPAN + i] = sum;
            }
        }
    const int TOGETHER = 16, N = VECTOR<W>;
    done += blockIdx.y * 2 * TOGETHER;
    for (int level = 0; level < 2; level++) {  // of the blocks of a set, then of the sets
        const int apart = level ? TOGETHER : 1, begin = level ? 0 : blockIdx.x / TOGETHER * TOGETHER;
        const int left = (gridDim.x - begin + apart - 1) / apart, count = left < TOGETHER ? left : TOGETHER;
        unsigned* counter = done + (level ? TOGETHER : blockIdx.x / TOGETHER);
        __threadfence();
        __syncthreads();
        if (thread == 0) is_last = atomicAdd(counter, 1u) == count - 1;
        __syncthreads();
        if (!is_last) return;
        __threadfence();  // after it, what other blocks have written is seen
        if (thread == 0) *counter = 0;  // for the next launch
        for (int i = thread * N; i < 2 * HELD; i += threads * N) {
            const int side = i / HELD, column = i % HELD;
            Group<W, N>* from = (Group<W, N>*)(partial + (begin * i64(2) + side) * GROUPS * SPAN + column);
            Group<W, N> sum = {}, others[TOGETHER] = {};
#pragma unroll
            for (int part = 0; part < TOGETHER; part++)  // all on their way at once
                if (part < count) copy_group(&others[part], from + part * apart * (2 * GROUPS * SPAN / N));
#pragma unroll
            for (int part = 0; part < TOGETHER; part++)
#pragma unroll
                for (int j = 0; j < N; j++) sum.at[j] += others[part].at[j];
            if (level) store_group((side ? total_bias : total_weight) + first + column, width - first - column, sum);
            else copy_group(from, &sum);
        }
    }
}

// ---- Embedding -------------------------------------------------------------------------------------------------------

// y = dropout(scale · weight[indices] + positions), positions [period, width] or null; NaN for an index outside.
template <class T>
__global__ void embedding(const Wide<T>* weight, const int* indices, const Wide<T>* positions, T* y, i64 rows,
                          int width, int vocabulary, int period, Wide<T> scale, Drop drop) {
    typedef Wide<T> W;
    const int groups = (width + GROUP - 1) / GROUP;
    const i64 job = blockIdx.x * i64(blockDim.x) + threadIdx.x, row = job / groups;
    if (row >= rows) return;
    const int column = job % groups * GROUP, count = width - column, index = indices[row];
    const bool inside = 0 <= index && index < vocabulary;
    const Group<W> from = load_group(weight + (inside ? i64(index) : 0) * width + column, count);
    Group<W> beside;
    if (positions) beside = load_group(positions + row % period * width + column, count);
    const unsigned bits = drop.below ? keep_bits(drop, row * width + column) : 0;
    Group<T> out;
#pragma unroll
    for (int i = 0; i < GROUP; i++) {
        W value = inside ? from.at[i] * scale : not_a_number<W>();
        if (positions) value += beside.at[i];
        out.at[i] = T(drop.below ? dropped(value, bits, i, drop) : value);
    }
    store_group(y + row * width + column, count, out);
}

// The sum of eight rows of threads, for the first of them.
template <class W> __device__ inline W sum_of_eight(W sum) {
    __shared__ W sums[8][32];
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0)
        for (int i = 1; i < 8; i++) sum += sums[i][threadIdx.x];
    __syncthreads();
    return sum;
}

// keys: index · rows + row of all rows, sorted.  Each row counts the rows before it, so all pairs are compared: for up to
// some ten thousand rows, one launch instead of the dozens of a sort.  A thread takes four rows.  Block: 32 × 8.
__global__ void order_rows(const int* indices, i64* keys, int rows) {
    const int EACH = 4, first = blockIdx.x * 32 * EACH + threadIdx.x;
    int index[EACH], before[EACH] = {};
#pragma unroll
    for (int k = 0; k < EACH; k++) index[k] = first + 32 * k < rows ? indices[first + 32 * k] : 0;
    for (int i = threadIdx.y; i < rows; i += 8) {
        const int other = indices[i];
#pragma unroll
        for (int k = 0; k < EACH; k++) before[k] += i < first + 32 * k ? other <= index[k] : other < index[k];
    }
#pragma unroll
    for (int k = 0; k < EACH; k++) {
        const int place = sum_of_eight(before[k]), row = first + 32 * k;
        if (threadIdx.y == 0 && row < rows) keys[place] = i64(index[k]) * rows + row;
    }
}

// g_weight += scale · Σ of the rows of dropout(g_y) with equal indices.  `keys` are index · rows + row, sorted: equal indices are
// adjacent, in the order of the rows.  A block sums a chunk of CHUNK keys.  Sums that begin and end in its chunk go to
// g_weight; the sums at its first and last key, which may extend to other chunks, go to edges[block], [2, width], for
// embedding_edges.
const int CHUNK = 32;

// The index of a key, -1 for all that are below 0 (such rows count for nothing), and its row.
__device__ inline i64 index_of(i64 key, i64 rows) { return key < 0 ? -1 : key / rows; }
__device__ inline i64 row_of(i64 key, i64 rows) { return key % rows + (key % rows < 0 ? rows : 0); }

template <class T>
__global__ void embedding_backward(const T* g_y, const i64* keys, Wide<T>* g_weight, Wide<T>* edges, i64 rows,
                                   int width, int vocabulary, Wide<T> scale, Drop drop) {
    typedef Wide<T> W;
    const i64 begin = i64(blockIdx.x) * CHUNK, end = begin + CHUNK < rows ? begin + CHUNK : rows;
    const i64 first = index_of(keys[begin], rows), last = index_of(keys[end - 1], rows);
    for (int column = threadIdx.x * GROUP; column < width; column += blockDim.x * GROUP) {
        W sum[GROUP] = {};
        for (i64 at = begin; at < end; at++) {
            const i64 index = index_of(keys[at], rows), place = row_of(keys[at], rows) * width + column;
            const Group<T> g = load_group(g_y + place, width - column);
            const unsigned bits = drop.below ? keep_bits(drop, place) : 0;
#pragma unroll
            for (int i = 0; i < GROUP; i++) sum[i] += drop.below ? dropped(W(g.at[i]), bits, i, drop) : W(g.at[i]);
            if (at + 1 < end && index_of(keys[at + 1], rows) == index) continue;
            const bool is_edge = index == first || index == last;  // the first alone, where both are one
            W* to = is_edge ? edges + (i64(blockIdx.x) * 2 + (index != first)) * width : g_weight + index * width;
            if (is_edge || (0 <= index && index < vocabulary)) {
                Group<W> out = {};
                if (!is_edge) out = load_group(to + column, width - column);
#pragma unroll
                for (int i = 0; i < GROUP; i++) out.at[i] = is_edge ? sum[i] : out.at[i] + sum[i] * scale;
                store_group(to + column, width - column, out);
            }
#pragma unroll
            for (int i = 0; i < GROUP; i++) sum[i] = 0;
        }
    }
}

// Sums the edges of chunks from embedding_backward.  Block (b, c): the sums that begin in chunk b, of 32 columns.  A
// frequent token has hundreds of edges: each of SUMMED rows of threads takes every SUMMED-th of them.
template <class W>
__global__ void embedding_edges(const i64* keys, const W* edges, W* g_weight, i64 rows, int width, int vocabulary,
                                W scale) {
    const int SUMMED = 16;
    __shared__ W sums[SUMMED][32];
    const i64 chunk = blockIdx.x, chunks = gridDim.x;
    const int column = blockIdx.y * 32 + threadIdx.x;
    for (int side = 0; side < 2; side++) {
        const i64 first = index_of(keys[chunk * CHUNK], rows);
        const i64 stop = (chunk + 1) * CHUNK < rows ? (chunk + 1) * CHUNK : rows;
        const i64 last = index_of(keys[stop - 1], rows), index = side ? last : first;
        if (side && first == last) return;  // one sum, at side 0
        if (!side && chunk && index_of(keys[chunk * CHUNK - 1], rows) == first) continue;  // it began in an earlier chunk
        if (index < 0 || index >= vocabulary) continue;
        W sum = 0;
        if (column < width) {
            if (threadIdx.y == 0) sum = edges[(chunk * 2 + side) * width + column];
            if (index == last)
                for (i64 next = chunk + 1 + threadIdx.y;
                     next < chunks && index_of(keys[next * CHUNK], rows) == index; next += SUMMED)
                    sum += edges[next * 2 * width + column];
        }
        sums[threadIdx.y][threadIdx.x] = sum;
        __syncthreads();
        if (threadIdx.y == 0 && column < width) {
            for (int i = 1; i < SUMMED; i++) sum += sums[i][threadIdx.x];
            g_weight[index * width + column] += sum * scale;
        }
        __syncthreads();
    }
}

// ---- Cross-entropy ---------------------------------------------------------------------------------------------------

// e^x of numbers stored as T is power<T>(x · UNIT<T>): for bf16 a power of two, one instruction, which is off by 2^-22.
template <class T> constexpr Wide<T> UNIT = Wide<T>(sizeof(T) == 2 ? LOG2_E : 1);
template <class T> __device__ inline Wide<T> power(Wide<T> x) { return exponential(x); }
template <> __device__ inline float power<bf16>(float x) { return power_of_two(x); }

// x · UNIT - less, rounded once, so that what both are rounded to cancels.
template <class T> __device__ inline Wide<T> exponent(Wide<T> x, Wide<T> less) {
    return sizeof(x) == 8 ? x * UNIT<T> - less : Wide<T>(fmaf(x, UNIT<T>, -less));
}

template <class W> struct Weighed {  // of numbers x: top = max x · UNIT, total = Σ power(x · UNIT - top), and Σ x
    W top, total, sum;
};

// What to subtract from exponents: -∞ - (-∞) would be NaN.
template <class W> __device__ inline W base_of(W top) { return top == -infinity<W>() ? W(0) : top; }

template <class T, int SIZE> __device__ inline void weigh(Weighed<Wide<T>>& all, const Group<T, SIZE>& x) {
    typedef Wide<T> W;
    W top = x.wide(0);
#pragma unroll
    for (int i = 0; i < SIZE; i++) top = maximum(top, x.wide(i)), all.sum += x.wide(i);
    top = maximum(all.top, top * UNIT<T>);
    all.total *= power<T>(all.top - base_of(top));
#pragma unroll
    for (int i = 0; i < SIZE; i++) all.total += power<T>(exponent<T>(x.wide(i), base_of(top)));
    all.top = top;
}

template <class T> __device__ inline Weighed<Wide<T>> warp_weighed(const Weighed<Wide<T>>& mine) {
    Wide<T> top = mine.top;
    for (int step = 16; step; step /= 2) top = maximum(top, __shfl_xor_sync(0xffffffffu, top, step));
    return {top, warp_sum(mine.total * power<T>(mine.top - base_of(top))), warp_sum(mine.sum)};
}

// Row losses against (1 - ε) · one-hot + ε / V, and row negative log-likelihoods.  `gradient`, null or perhaps the
// memory of the logits, gets the gradient of each row's loss times its factor.  Rows that do not count have loss and
// gradient 0; `counted` and `factors` may be null.  NaN for a target outside.  Rows are `stride` apart.  With `keeps`,
// shared memory keeps the row, so that it is read once, all of it at once.
// Block: a row, with a power of two of threads up to 512.
template <class T>
__global__ __launch_bounds__(512, sizeof(T) == 2 ? 3 : 1)
void cross_entropy(const T* logits, const int* targets, const bool* counted, const Wide<T>* factors, Wide<T>* loss,
                   Wide<T>* nll, T* gradient, int classes, i64 stride, Wide<T> smoothing, bool keeps) {
    typedef Wide<T> W;
    const int N = VECTOR<T>, step = blockDim.x * N, begin = threadIdx.x * N;
    __shared__ Weighed<W> parts[32];
    DYNAMIC_SHARED(memory);
    T* kept = (T*)memory;  // a thread reads back the vectors that it has copied
    const T* row = logits + blockIdx.x * stride;
    T* out = gradient + blockIdx.x * stride;
    if (counted && !counted[blockIdx.x]) {
        for (int start = begin; gradient && start < classes; start += step)
            store_group(out + start, classes - start, Group<T, N>{});
        if (threadIdx.x == 0) loss[blockIdx.x] = nll[blockIdx.x] = 0;
        return;
    }
    const int whole = ((u64)row | (u64)out) % 16 ? 0 : classes / N * N;  // elements of vectors; the rest one by one
    if (keeps)
        for (int start = begin; start < whole; start += step) copy_or_clear(kept + start, row + start, true);
    const int target = targets[blockIdx.x];
    const bool inside = 0 <= target && target < classes;
    const W logit = inside ? W(row[target]) : not_a_number<W>();  // before a gradient is there
    wait_for_copies();
    Weighed<W> all = {-infinity<W>(), 0, 0};
    const auto vector = [&](int start) {
        Group<T, N> x;
        if (keeps) copy_group(&x, (const Group<T, N>*)(kept + start));
        else copy_group(&x, (const Group<T, N>*)(row + start));
        return x;
    };
    for (int start = begin; start < whole; start += step) weigh(all, vector(start));
    for (int i = whole + threadIdx.x; i < classes; i += blockDim.x) weigh(all, Group<T, 1>{row[i]});
    all = warp_weighed<T>(all);
    const int lane = threadIdx.x % 32;
    if (lane == 0) parts[threadIdx.x / 32] = all;
    __syncthreads();
    all = warp_weighed<T>(lane < blockDim.x / 32 ? parts[lane] : Weighed<W>{-infinity<W>(), 0, 0});
    if (threadIdx.x == 0) {
        const W log_total = logarithm(all.total), to_e = 1 / UNIT<T>;
        const W row_nll = log_total - exponent<T>(logit, all.top) * to_e;
        const W mean = log_total + all.top * to_e - all.sum / classes;  // of all classes' negative log-likelihoods
        nll[blockIdx.x] = row_nll;
        loss[blockIdx.x] = smoothing == 0 ? row_nll : (1 - smoothing) * row_nll + smoothing * mean;
    }
    if (!gradient) return;
    const W everywhere = smoothing / classes, factor = factors ? factors[blockIdx.x] : W(1);
    const W less = everywhere * factor, scale = factor / all.total, top = base_of(all.top);
    for (int start = begin; start < whole; start += step) {
        Group<T, N> x = vector(start);
        W g[N];
#pragma unroll
        for (int i = 0; i < N; i++) g[i] = power<T>(exponent<T>(x.wide(i), top)) * scale - less;
        x = rounded<T>(g);
        copy_group((Group<T, N>*)(out + start), &x);
    }
    for (int i = whole + threadIdx.x; i < classes; i += blockDim.x)
        out[i] = T(power<T>(exponent<T>(row[i], top)) * scale - less);
    const int owner = target < whole ? target / N % blockDim.x : (target - whole) % blockDim.x;
    if (inside && threadIdx.x == owner)  // which has written the rest of it
        out[target] = T((power<T>(exponent<T>(logit, top)) / all.total - everywhere - (1 - smoothing)) * factor);
}

// ---- Optimizer -------------------------------------------------------------------------------------------------------

const int PER_THREAD = 4;
template <class W> struct Listed {  // one of many arrays that a launch takes
    W* parameter;
    const W* gradient;
    W *m, *v;
    bf16* copy;     // the parameter in bf16, or null
    i64 block_end;  // number of blocks of the arrays up to this one
    i64 size;
};

// The array of this block, and the number of the block among those of its array.
template <class W> __device__ inline const Listed<W>& find_listed(const Listed<W>* lists, int count, i64& block) {
    int low = 0, high = count - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (i64(blockIdx.x) < lists[middle].block_end) high = middle;
        else low = middle + 1;
    }
    block = blockIdx.x - (low ? lists[low - 1].block_end : 0);
    return lists[low];
}

// One Adam update of many arrays.  1 - β is computed on the host: in float, 1 - 0.98f has 6 digits.
template <class W>
__global__ void adam_(const Listed<W>* lists, int count, W step_size, W one_minus_beta1, W one_minus_beta2, W eps,
                      W gradient_scale) {
    i64 block;
    const Listed<W> a = find_listed(lists, count, block);
    for (int j = 0; j < PER_THREAD; j++) {
        const i64 i = (block * PER_THREAD + j) * blockDim.x + threadIdx.x;
        if (i >= a.size) return;
        const W g = a.gradient[i] * gradient_scale;
        const W m = a.m[i] + one_minus_beta1 * (g - a.m[i]);
        const W v = a.v[i] + one_minus_beta2 * (g * g - a.v[i]);
        const W p = a.parameter[i] - step_size * m / (square_root(v) + eps);
        a.m[i] = m, a.v[i] = v, a.parameter[i] = p;
        if (a.copy) a.copy[i] = bf16(float(p));
    }
}

// Many gradients to their places, `parameter`, or added to what is there where `m` is not null.
template <class W> __global__ void gather_(const Listed<W>* lists, int count) {
    i64 block;
    const Listed<W> a = find_listed(lists, count, block);
    for (int j = 0; j < PER_THREAD; j++) {
        const i64 i = (block * PER_THREAD + j) * blockDim.x + threadIdx.x;
        if (i >= a.size) return;
        a.parameter[i] = a.m ? a.parameter[i] + a.gradient[i] : a.gradient[i];
    }
}

// The sum of a block of 256 threads, for all of them.
__device__ inline double block_sum(double sum) {
    __shared__ double sums[8];
    sum = warp_sum(sum);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int warp = 0; warp < 8; warp++) sum += sums[warp];
    __syncthreads();
    return sum;
}

// total = Σ gradient² over many arrays.  Each block sums a part of one of them in partial[block]; the last to end, by the
// count in `done`, adds these up.  Block: 256 threads.
template <class W>
__global__ void squares(const Listed<W>* lists, int count, double* partial, unsigned* done, double* total) {
    __shared__ bool is_last;
    i64 block;
    const Listed<W>& a = find_listed(lists, count, block);
    const i64 blocks = a.block_end - (blockIdx.x - block);
    W sum = 0;
    for (i64 i = block * blockDim.x + threadIdx.x; i < a.size; i += blocks * blockDim.x)
        sum += a.gradient[i] * a.gradient[i];
    volatile double* parts = partial;  // of other blocks: to be read from memory
    const double mine = block_sum(sum);
    if (threadIdx.x == 0) parts[blockIdx.x] = mine;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) is_last = atomicAdd(done, 1u) == gridDim.x - 1;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    double all = 0;
    for (int part = threadIdx.x; part < gridDim.x; part += blockDim.x) all += parts[part];
    all = block_sum(all);
    if (threadIdx.x == 0) *total = all, *done = 0;  // for the next launch
}

// ---- Search ----------------------------------------------------------------------------------------------------------

// The `count` largest logits of each row that are not barred, by value and then by id, and log Σ exp of the whole row,
// which is NaN if a logit is; the ids are of the vocabulary even then.
// Block: a row, with a power of two of threads up to 1024.
template <class T>
__global__ void top_tokens(const T* logits, const bool* barred, int* ids, Wide<T>* values, Wide<T>* log_total,
                           int classes, int count) {
    typedef Wide<T> W;
    __shared__ W best[1024];
    __shared__ int where[1024];
    const T* row = logits + i64(blockIdx.x) * classes;
    const int thread = threadIdx.x;
    W top = -infinity<W>(), total = 0;
    for (int i = thread; i < classes; i += blockDim.x) top = maximum(top, W(row[i]));
    best[thread] = top;
    __syncthreads();
    for (int i = 0; i < blockDim.x; i++) top = maximum(top, best[i]);
    __syncthreads();
    for (int i = thread; i < classes; i += blockDim.x) total += exponential(W(row[i]) - top);
    best[thread] = total;
    __syncthreads();
    if (thread == 0) {
        for (int i = 1; i < blockDim.x; i++) total += best[i];
        log_total[blockIdx.x] = top + logarithm(total);
    }
    W last = infinity<W>();
    int last_id = -1;
    for (int n = 0; n < count; n++) {
        W value = -infinity<W>();
        int id = classes;
        for (int i = thread; i < classes; i += blockDim.x) {
            const W logit = W(row[i]), x = barred[i] || logit != logit ? -infinity<W>() : logit;
            const bool comes_after = x < last || (x == last && i > last_id);
            if (comes_after && (x > value || (x == value && i < id))) value = x, id = i;
        }
        __syncthreads();
        best[thread] = value, where[thread] = id;
        for (int step = blockDim.x / 2; step; step /= 2) {
            __syncthreads();
            if (thread >= step) continue;
            const W other = best[thread + step];
            const int other_id = where[thread + step];
            if (other > best[thread] || (other == best[thread] && other_id < where[thread]))
                best[thread] = other, where[thread] = other_id;
        }
        __syncthreads();
        last = best[0], last_id = where[0];
        if (thread == 0) values[i64(blockIdx.x) * count + n] = last, ids[i64(blockIdx.x) * count + n] = last_id;
    }
}
