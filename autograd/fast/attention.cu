// Scaled dot-product attention without [T, S] matrices in memory; compiled after kernels.cu, in one module.
//
// A block has 128 threads and computes tiles of 64 queries × 64 keys.  It loops over all keys (or queries) tile by tile
// with a running maximum and sum, so the code is the same for any length; up to 64 tokens are one tile.  Products run on
// tensor cores for bf16 (mma.sync, compute capability 8.0 and up), else on the ordinary cores.
//
// Source: Milakov and Gimelshein 2018 (the running softmax); Dao 2023, "FlashAttention-2" (the tiles, and a backward
// pass that recomputes the probabilities).  Unlike there, no sum uses atomics: results are deterministic.

const int TILE = 64;
const int THREADS = 128;

template <class T> __device__ constexpr int padding() { return sizeof(T) == 2 ? 8 : 1; }  // against bank conflicts
template <class T> __device__ constexpr int width_of_weights() { return TILE + padding<T>(); }

// Blocks a multiprocessor has shared memory for, `most` at most; a bound on registers for more would only cause spills.
// A block has `tiles` of [64, HEAD] and `weights` of [64, 64] elements, and 1 KB is CUDA's.
template <class T, int HEAD> __device__ constexpr int blocks(int most, int tiles, int weights) {
#if __CUDA_ARCH__ >= 900
    const int kilobytes = 228;
#else
    const int kilobytes = 164;
#endif
    const int bytes = TILE * (tiles * (HEAD + padding<T>()) + weights * width_of_weights<T>()) * int(sizeof(T)) + 1024;
    const int fit = kilobytes * 1024 / bytes;
    return fit < 1 ? 1 : fit < most ? fit : most;
}

struct Place {  // strides of an array [B, H, rows, columns], in elements; columns are adjacent
    i64 batch, head, row;
};

struct AttentionShape {
    Place q, k, v, y, g_y, g_q, g_k, g_v;
    i64 mask[4];            // strides of the mask [B, H, T, S]; 0 along axes that it is broadcast over
    int heads, t, s, k_width, v_width, causal;  // causal: queries attend to no later keys; there is no mask then
};

template <class T> __device__ inline T* at(T* array, const Place& place, i64 b, i64 h, i64 row) {
    return array + b * place.batch + h * place.head + row * place.row;
}

// ---- Elements of a tile in registers ---------------------------------------------------------------------------------
// Each warp has 16 rows of a tile, each thread 32 elements: element i is in row row(slot(i)), of ROWS rows, and column
// first_column() + step(i).  LANES neighbouring lanes hold a row together.  Of bf16, elements 8 · g … 8 · g + 7 are of
// group g of 16 columns; groups whose bit is 0 in `groups` are left out.

template <class T> struct Owned {  // 4 neighbouring rows, every 8th column
    static const int ROWS = 4, LANES = 8;
    __device__ static int slot(int i) { return i / 8; }
    __device__ static int row(int slot) { return threadIdx.x / 8 * 4 + slot; }
    __device__ static int first_column() { return threadIdx.x % 8; }
    __device__ static int step(int i) { return i % 8 * 8; }
};

template <> struct Owned<bf16> {  // what mma.sync gives a lane: pairs of columns
    static const int ROWS = 2, LANES = 4;
    __device__ static int slot(int i) { return i / 2 % 2; }
    __device__ static int row(int slot) { return threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + slot * 8; }
    __device__ static int first_column() { return threadIdx.x % 4 * 2; }
    __device__ static int step(int i) { return i / 4 * 8 + i % 2; }
};

__device__ inline unsigned rounded_pair(float low, float high) {
#ifdef __CUDACC__
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return bf16(low).bits | unsigned(bf16(high).bits) << 16;
#endif
}

// The elements of a tile that a thread holds as a factor of a product: [64 queries, 64 keys].
template <class T> struct Weights {
    Wide<T> x[32];
    __device__ void set(int i, Wide<T> first, Wide<T> second) { x[i] = first, x[i + 1] = second; }
    __device__ void store(T* tile, unsigned) const {
        typedef Owned<T> Own;
#pragma unroll
        for (int i = 0; i < 32; i++)
            tile[Own::row(Own::slot(i)) * width_of_weights<T>() + Own::first_column() + Own::step(i)] = T(x[i]);
    }
};

template <> struct Weights<bf16> {  // just as mma.sync takes them
    unsigned x[16];
    __device__ void set(int i, float first, float second) { x[i / 2] = rounded_pair(first, second); }
    __device__ void store(bf16* tile, unsigned groups) const {
        typedef Owned<bf16> Own;
#pragma unroll
        for (int i = 0; i < 32; i += 2)
            if (groups >> i / 8 & 1)
                *(unsigned*)(tile + Own::row(Own::slot(i)) * width_of_weights<bf16>() + Own::first_column() +
                             Own::step(i)) = x[i / 2];
    }
};

// ---- Products of tiles -----------------------------------------------------------------------------------------------
// Of bf16, `groups` has a bit for each 16 columns of c, or steps of the sum, that are not to be left out.

// c[64 × 64] += a[64 × INNER] · b[INNER × 64].  `A_T`: element (i, k) of a stands at a[k · ld + i], else at
// a[i · ld + k]; `B_T` likewise: (k, j) stands at b[j · ld + k], else at b[k · ld + j].
template <bool A_T, bool B_T, int INNER, class T>
__device__ inline void multiply(T (&c)[32], const T* a, int a_ld, const T* b, int b_ld) {
    const int row = Owned<T>::row(0), column = Owned<T>::first_column();
    for (int k = 0; k < INNER; k++) {
        T x[4], y[8];
#pragma unroll
        for (int i = 0; i < 4; i++) x[i] = A_T ? a[k * a_ld + row + i] : a[(row + i) * a_ld + k];
#pragma unroll
        for (int j = 0; j < 8; j++) y[j] = B_T ? b[(column + 8 * j) * b_ld + k] : b[k * b_ld + column + 8 * j];
#pragma unroll
        for (int i = 0; i < 32; i++) c[i] += x[i / 8] * y[i % 8];
    }
}

// c += a · bᵀ over rows of WIDTH elements.
template <int WIDTH, class T>
__device__ inline void multiply_rows(T (&c)[32], const T* a, const T* b, unsigned) {
    multiply<false, true, WIDTH>(c, a, WIDTH + padding<T>(), b, WIDTH + padding<T>());
}

// c += weights · b; not of bf16, the warp has stored its rows of weights in `tile`.
template <class T>
__device__ inline void multiply_weights(T (&c)[32], const Weights<T>&, const T* tile, const T* b, int b_ld, unsigned) {
    multiply<false, false, TILE>(c, tile, width_of_weights<T>(), b, b_ld);
}

// c += tileᵀ · b, of the stored weights of all warps.
template <class T>
__device__ inline void multiply_transposed(T (&c)[32], const T* tile, const T* b, int b_ld, unsigned) {
    multiply<true, false, TILE>(c, tile, width_of_weights<T>(), b, b_ld);
}

// d[16 × 8] += a[16 × 16] · b[16 × 8] by a warp.
__device__ inline void mma(float* d, const unsigned* a, unsigned b0, unsigned b1) {
#ifdef __CUDACC__
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
    emulated_mma(d, a, {b0, b1});
#endif
}

// Four 8 × 8 matrices from shared memory, two neighbouring elements of a row a lane; `from` is where row lane % 8 of
// matrix lane / 8 begins, at a multiple of 16 bytes.  With TRANSPOSED, a lane gets elements of a column.
template <bool TRANSPOSED> __device__ inline void load_matrices(unsigned (&x)[4], const bf16* from) {
#ifdef __CUDACC__
    const unsigned place = __cvta_generic_to_shared(from);
    if (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(place) : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3]) : "r"(place) : "memory");
#else
    emulated_ldmatrix(x, from, TRANSPOSED);
#endif
}

// Where this lane's row begins of four matrices that follow each other along the first axis, then along the second.
__device__ inline const bf16* first_then_second(const bf16* tile, int ld) {
    return tile + (threadIdx.x % 8 + threadIdx.x / 8 % 2 * 8) * ld + threadIdx.x / 16 % 2 * 8;
}
__device__ inline const bf16* second_then_first(const bf16* tile, int ld) {
    return tile + (threadIdx.x % 8 + threadIdx.x / 16 % 2 * 8) * ld + threadIdx.x / 8 % 2 * 8;
}

template <int WIDTH> __device__ inline void multiply_rows(float (&c)[32], const bf16* a, const bf16* b, unsigned groups) {
    const int LD = WIDTH + padding<bf16>();
    a = first_then_second(a + threadIdx.x / 32 * 16 * LD, LD), b = second_then_first(b, LD);
#pragma unroll
    for (int chunk = 0; chunk < WIDTH; chunk += 32) {
        unsigned x[2][4];
#pragma unroll
        for (int k = 0; k < 2; k++) load_matrices<false>(x[k], a + chunk + 16 * k);
#pragma unroll
        for (int group = 0; group < 4; group++)
            if (groups >> group & 1)
#pragma unroll
                for (int k = 0; k < 2; k++) {
                    unsigned y[4];  // of two times 8 columns
                    load_matrices<false>(y, b + group * 16 * LD + chunk + 16 * k);
                    mma(c + 8 * group, x[k], y[0], y[1]);
                    mma(c + 8 * group + 4, x[k], y[2], y[3]);
                }
    }
}

// c += x · 16 rows of b
__device__ inline void multiply_step(float (&c)[32], const unsigned* x, const bf16* b) {
#pragma unroll
    for (int j = 0; j < 4; j++) {
        unsigned y[4];
        load_matrices<true>(y, b + j * 16);
        mma(c + 8 * j, x, y[0], y[1]);
        mma(c + 8 * j + 4, x, y[2], y[3]);
    }
}

__device__ inline void multiply_weights(float (&c)[32], const Weights<bf16>& weights, const bf16*, const bf16* b, int b_ld,
                                        unsigned groups) {
    b = first_then_second(b, b_ld);
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (groups >> k & 1) multiply_step(c, weights.x + 4 * k, b + k * 16 * b_ld);
}

__device__ inline void multiply_transposed(float (&c)[32], const bf16* tile, const bf16* b, int b_ld, unsigned groups) {
    const int LD = width_of_weights<bf16>();
    tile = second_then_first(tile + threadIdx.x / 32 * 16, LD), b = first_then_second(b, b_ld);
#pragma unroll
    for (int k = 0; k < 4; k++)
        if (groups >> k & 1) {
            unsigned x[4];
            load_matrices<true>(x, tile + k * 16 * LD);
            multiply_step(c, x, b + k * 16 * b_ld);
        }
}

// ---- Tiles in and out of shared memory -------------------------------------------------------------------------------

template <class T> __device__ inline void wait_for_tiles() {
    if (sizeof(T) == 2) wait_for_copies();
    __syncthreads();
}

// Row-major, WIDTH columns; elements beyond `rows` and `columns` become 0, so they add nothing to a product.
template <class T, int WIDTH>
__device__ inline void load_tile(T* tile, const T* from, i64 row_stride, int rows, int columns) {
    const int LD = WIDTH + padding<T>(), PER_ROW = WIDTH / 8, STEP = THREADS / PER_ROW;  // groups of 8 elements
    const int first = threadIdx.x / PER_ROW, column = threadIdx.x % PER_ROW * 8;
    tile += first * LD + column, from += first * row_stride + column;
    if constexpr (sizeof(T) == 2)
        if (columns % 8 == 0 && row_stride % 8 == 0 && (u64)from % 16 == 0) {
#pragma unroll
            for (int row = 0; row < TILE; row += STEP)
                copy_or_clear(tile + row * LD, from + row * row_stride, first + row < rows && column < columns);
            return;
        }
#pragma unroll 1
    for (int row = 0; row < TILE; row += STEP)
#pragma unroll
        for (int i = 0; i < 8; i++)
            tile[row * LD + i] = first + row < rows && column + i < columns ? from[row * row_stride + i] : T(0.0f);
}

// Rows × columns of a product held in registers, times `factor(slot)` of each row.
template <class T, class Factor>
__device__ inline void store_tile(T* to, i64 row_stride, int rows, int columns, const Wide<T> (&c)[32], Factor factor) {
    typedef Owned<T> Own;
    const int column = Own::first_column();
#pragma unroll
    for (int slot = 0; slot < Own::ROWS; slot++) {
        const bool inside = Own::row(slot) < rows;
        const Wide<T> times = factor(slot);
        T* place = to + Own::row(slot) * row_stride + column;
        if constexpr (sizeof(T) == 2)
            if (columns % 4 == 0 && row_stride % 4 == 0 && (u64)to % 8 == 0) {
                // two lanes swap a pair each, so that one has 4 neighbours of these 8 columns, the other of the next
                const bool odd = threadIdx.x % 2;
                const int first = odd ? 6 : 0;  // from its own column on
#pragma unroll
                for (int i = 2 * slot; i < 32; i += 8) {
                    const unsigned here = rounded_pair(c[i] * times, c[i + 1] * times);
                    const unsigned next = rounded_pair(c[i + 4] * times, c[i + 5] * times);
                    const unsigned other = __shfl_xor_sync(~0u, odd ? here : next, 1);
                    const u64 four = odd ? u64(next) << 32 | other : u64(other) << 32 | here;
                    if (inside && Own::step(i) + first + column < columns) *(u64*)(place + Own::step(i) + first) = four;
                }
                continue;
            }
#pragma unroll
        for (int i = 0; i < 32; i++)
            if (Own::slot(i) == slot && inside && Own::step(i) + column < columns) place[Own::step(i)] = T(c[i] * times);
    }
}

// ---- Which weights there are -----------------------------------------------------------------------------------------
// Lane r + 16 · half of a warp has, as bits, keys 32 · half … 32 · half + 31 of the tile for the warp's row r, where t is
// the warp's first query and s the tile's first key.

// May the query attend to the key?
__device__ inline unsigned allowed_bits(const bool* mask, const AttentionShape& shape, i64 b, i64 h, int t, int s) {
    const int lane = threadIdx.x % 32, row = lane % 16;
    const int end = shape.causal && t + row < shape.s ? t + row + 1 : shape.s, keys = end - s - lane / 16 * 32;
    const unsigned inside = t + row >= shape.t || keys <= 0 ? 0 : keys >= 32 ? ~0u : (1u << keys) - 1;
    if (!mask) return inside;
    mask += b * shape.mask[0] + h * shape.mask[1] + t * shape.mask[2] + (s + lane) * shape.mask[3];
    const auto bits_of_row = [&](int r) {  // neighbouring lanes read neighbouring keys
        const bool* const key = mask + r * shape.mask[2];
        const unsigned low = __ballot_sync(~0u, t + r < shape.t && s + lane < shape.s && *key);
        const unsigned high = __ballot_sync(~0u, t + r < shape.t && s + 32 + lane < shape.s && key[32 * shape.mask[3]]);
        return lane < 16 ? low : high;
    };
    if (shape.mask[2] == 0) return inside & bits_of_row(0);  // as that of padding
    unsigned bits = 0;
#pragma unroll 4
    for (int r = 0; r < 16; r++) {
        const unsigned of_row = bits_of_row(r);
        if (r == row) bits = of_row;
    }
    return inside & bits;
}

// Does dropout keep the weight?
__device__ inline unsigned kept_bits(const Drop& drop, const AttentionShape& shape, unsigned bh, int t, int s) {
    if (!drop.below) return ~0u;
    const int lane = threadIdx.x % 32;
    const u64 position = (u64(bh) * shape.t + t + lane % 16) * shape.s + s + lane / 16 * 32;
    unsigned bits = 0;
#pragma unroll 1
    for (int i = 0; i < 32; i += GROUP) bits |= keep_bits(drop, position + i) << i;
    return bits;
}

// A bit for each 16 keys, of which any of the warp's queries may attend to one.
template <class T> __device__ inline unsigned groups_of_keys(unsigned allowed) {
    if (sizeof(T) != 2) return 15;  // only products of bf16 leave groups out
    const unsigned even = __ballot_sync(~0u, allowed & 0xffff), odd = __ballot_sync(~0u, allowed >> 16);
    return (even & 0xffff ? 1 : 0) | (odd & 0xffff ? 2 : 0) | (even >> 16 ? 4 : 0) | (odd >> 16 ? 8 : 0);
}

// The bits of the elements that a thread holds.
template <class T> struct Bits {
    unsigned word[Owned<T>::ROWS][2];
    __device__ explicit Bits(unsigned of_lane) {
#pragma unroll
        for (int i = 0; i < 2 * Owned<T>::ROWS; i++)
            word[i / 2][i % 2] =
                __shfl_sync(~0u, of_lane, Owned<T>::row(i / 2) % 16 + i % 2 * 16) >> Owned<T>::first_column();
    }
    __device__ bool at(int i) const { return word[Owned<T>::slot(i)][Owned<T>::step(i) / 32] >> Owned<T>::step(i) % 32 & 1; }
    __device__ void clear_others(Wide<T> (&c)[32], int group) const {
#pragma unroll
        for (int i = 8 * group; i < 8 * group + 8; i++) c[i] = at(i) ? c[i] : Wide<T>(0);
    }
};

template <class T> __device__ inline void sum_of_lanes(Wide<T> (&x)[Owned<T>::ROWS]) {
#pragma unroll
    for (int slot = 0; slot < Owned<T>::ROWS; slot++)
        for (int lane = 1; lane < Owned<T>::LANES; lane *= 2) x[slot] += __shfl_xor_sync(~0u, x[slot], lane);
}

// ---- Forward ---------------------------------------------------------------------------------------------------------

// From q kᵀ in c, the weights 2^(score - top), one instruction each: `exponent` is scale · log2(e).  `top` of each query
// becomes its largest score so far; weights are added to `total`, and dropped in p.  `factor`: of what was computed with
// the last top.
template <class T>
__device__ inline void weights_of_scores(Weights<T>& p, Wide<T> (&c)[32], Wide<T> (&top)[Owned<T>::ROWS],
                                         Wide<T> (&total)[Owned<T>::ROWS], Wide<T> (&factor)[Owned<T>::ROWS],
                                         unsigned allowed_of_lane, unsigned kept_of_lane, unsigned groups,
                                         Wide<T> exponent, const Drop& drop) {
    typedef Wide<T> W;
    typedef Owned<T> Own;
    const Bits<T> allowed(allowed_of_lane), kept(kept_of_lane);
    W base[Own::ROWS];
#pragma unroll
    for (int slot = 0; slot < Own::ROWS; slot++) base[slot] = top[slot];
#pragma unroll
    for (int group = 0; group < 4; group++)
        if (groups >> group & 1)
#pragma unroll
            for (int i = 8 * group; i < 8 * group + 8; i++) {
                // rounded, as in the backward pass: a query whose weight is all on one key has p = 1 there too
                c[i] = allowed.at(i) ? rounded_product(c[i], exponent) : -infinity<W>();
                base[Own::slot(i)] = maximum(base[Own::slot(i)], c[i]);
            }
#pragma unroll
    for (int slot = 0; slot < Own::ROWS; slot++) {
        for (int lane = 1; lane < Own::LANES; lane *= 2)
            base[slot] = maximum(base[slot], __shfl_xor_sync(~0u, base[slot], lane));
        const W last = top[slot];
        top[slot] = base[slot];
        if (base[slot] == -infinity<W>()) base[slot] = 0;
        factor[slot] = power_of_two(last - base[slot]);
        total[slot] *= factor[slot];
    }
#pragma unroll
    for (int group = 0; group < 4; group++)
        if (groups >> group & 1) {
#pragma unroll
            for (int i = 8 * group; i < 8 * group + 8; i++) {
                c[i] = power_of_two(c[i] - base[Own::slot(i)]);
                total[Own::slot(i)] += c[i];
            }
            if (drop.below) kept.clear_others(c, group);
#pragma unroll
            for (int i = 8 * group; i < 8 * group + 8; i += 2) p.set(i, c[i], c[i + 1]);
        }
}

// y = dropout(p) v with p = softmax(scale · q kᵀ + mask), and log_total [B · H, T] = log2 Σ exp(scores), ∞ for a query
// that may attend to nothing.  ONE_TILE, only of bf16: queries and keys are at most 64.
// Grid: B · H × tiles of queries.
template <class T, bool ONE_TILE, int HEAD>
__global__ void __launch_bounds__(THREADS, blocks<T, HEAD>(ONE_TILE ? 7 : 256 / HEAD, 3, sizeof(T) != 2))
attention(const T* q, const T* k, const T* v, const bool* mask, T* y, Wide<T>* log_total, AttentionShape shape,
          Wide<T> scale, Drop drop) {
    typedef Wide<T> W;
    typedef Owned<T> Own;
    const int LD = HEAD + padding<T>(), CHUNKS = HEAD / TILE;
    DYNAMIC_SHARED(memory);
    T *q_tile = (T*)memory, *k_tile = q_tile + TILE * LD, *v_tile = k_tile + TILE * LD;
    T* p_tile = v_tile + TILE * LD;  // not of bf16
    const unsigned bh = blockIdx.x, b = bh / shape.heads, h = bh % shape.heads;
    const int t0 = blockIdx.y * TILE, warp_t = t0 + threadIdx.x / 32 * 16;
    W out[CHUNKS][32] = {};
    W top[Own::ROWS], total[Own::ROWS] = {}, factor[Own::ROWS];  // of each query
#pragma unroll
    for (int slot = 0; slot < Own::ROWS; slot++) top[slot] = -infinity<W>();
    load_tile<T, HEAD>(q_tile, at(q, shape.q, b, h, t0), shape.q.row, shape.t - t0, shape.k_width);
    for (int s0 = 0; s0 < (ONE_TILE ? 1 : shape.s); s0 += TILE) {
        if (s0) __syncthreads();  // the last iteration has used its tiles
        load_tile<T, HEAD>(k_tile, at(k, shape.k, b, h, s0), shape.k.row, shape.s - s0, shape.k_width);
        load_tile<T, HEAD>(v_tile, at(v, shape.v, b, h, s0), shape.v.row, shape.s - s0, shape.v_width);
        const unsigned allowed = allowed_bits(mask, shape, b, h, warp_t, s0), groups = groups_of_keys<T>(allowed);
        const unsigned kept = kept_bits(drop, shape, bh, warp_t, s0);
        wait_for_tiles<T>();
        W c[32] = {};
        multiply_rows<HEAD>(c, q_tile, k_tile, groups);
        Weights<T> p;
        weights_of_scores(p, c, top, total, factor, allowed, kept, groups, scale * W(LOG2_E), drop);
        if (sizeof(T) != 2) p.store(p_tile, groups), __syncwarp();
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
#pragma unroll
            for (int i = 0; i < 32; i++)
                if (!ONE_TILE) out[chunk][i] *= factor[Own::slot(i)];
            multiply_weights(out[chunk], p, p_tile, v_tile + chunk * TILE, LD, groups);
        }
    }
    sum_of_lanes<T>(total);
#pragma unroll
    for (int slot = 0; slot < Own::ROWS; slot++) {
        const bool writes = threadIdx.x % Own::LANES == 0 && t0 + Own::row(slot) < shape.t;
        W& written = log_total[i64(bh) * shape.t + t0 + Own::row(slot)];
        if (writes) written = total[slot] == 0 ? infinity<W>() : top[slot] + logarithm(total[slot]) * W(LOG2_E);
        factor[slot] = total[slot] == 0 ? W(0) : (drop.below ? W(drop.scale) : W(1)) / total[slot];
    }
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk++)
        store_tile<T>(at(y, shape.y, b, h, t0) + chunk * TILE, shape.y.row, shape.t - t0, shape.v_width - chunk * TILE,
                      out[chunk], [&](int slot) { return factor[slot]; });
}

// ---- Backward --------------------------------------------------------------------------------------------------------

template <class T, bool ONE_TILE, int HEAD> struct Tiles {  // shared memory of a block
    static const int LD = HEAD + padding<T>(), SIZE = TILE * LD;
    T *q, *k, *v, *g_y;  // [64, LD]
    T *p, *g_scores;     // [64, 64 + padding]

    __device__ explicit Tiles(unsigned char* memory) {
        q = (T*)memory, k = q + SIZE, v = k + SIZE, g_y = v + SIZE;
        p = ONE_TILE ? v : g_y + SIZE;  // of one tile, in the places of v and k when these have been used
        g_scores = ONE_TILE ? k : p + TILE * width_of_weights<T>();
    }
    __device__ void load_queries(const T* from_q, const T* from_g_y, const AttentionShape& shape, unsigned bh, int t0) {
        const unsigned b = bh / shape.heads, h = bh % shape.heads;
        load_tile<T, HEAD>(q, at(from_q, shape.q, b, h, t0), shape.q.row, shape.t - t0, shape.k_width);
        load_tile<T, HEAD>(g_y, at(from_g_y, shape.g_y, b, h, t0), shape.g_y.row, shape.t - t0, shape.v_width);
    }
    __device__ void load_keys(const T* from_k, const T* from_v, const AttentionShape& shape, unsigned bh, int s0) {
        const unsigned b = bh / shape.heads, h = bh % shape.heads;
        load_tile<T, HEAD>(k, at(from_k, shape.k, b, h, s0), shape.k.row, shape.s - s0, shape.k_width);
        load_tile<T, HEAD>(v, at(from_v, shape.v, b, h, s0), shape.v.row, shape.s - s0, shape.v_width);
    }
};

// From the loaded tiles, dropout(p) and the gradient of q kᵀ:  p · (g - Σ p · g) · scale with g = dropout(g_y vᵀ),
// where the factor 1 / P(keep) is left out of dropout(p).
//
// The sum over all keys is that of a row, where they are one tile: a query whose weight is all on one key then has the
// gradient 0, not the rounding of numbers that may be large.  It equals `delta` = Σ g_y · y · P(keep), which serves where keys fill
// several.  `log_total` and `delta` are those of the rows of which this thread holds elements.
template <class T, bool ONE_TILE, int HEAD>
__device__ inline void score_gradients(Weights<T>& p, Weights<T>& g_scores, const Tiles<T, ONE_TILE, HEAD>& tiles,
                                       const Wide<T> (&log_total)[Owned<T>::ROWS],
                                       const Wide<T> (&delta)[Owned<T>::ROWS],
                                       unsigned allowed_of_lane, unsigned kept_of_lane, unsigned groups, bool sums_row,
                                       Wide<T> scale, const Drop& drop) {
    typedef Wide<T> W;
    typedef Owned<T> Own;
    const W exponent = scale * W(LOG2_E), times = drop.below ? scale * W(drop.scale) : scale;
    const unsigned used = ONE_TILE ? groups : 15;  // sums over tiles leave no registers for what branches cost
    W c[32] = {}, g[32] = {}, sum[Own::ROWS] = {};
    multiply_rows<HEAD>(c, tiles.q, tiles.k, groups);
    multiply_rows<HEAD>(g, tiles.g_y, tiles.v, groups);
    const Bits<T> allowed(allowed_of_lane), kept(kept_of_lane);
#pragma unroll
    for (int group = 0; group < 4; group++)
        if (used >> group & 1) {
            if (drop.below) kept.clear_others(g, group);
#pragma unroll
            for (int i = 8 * group; i < 8 * group + 8; i++) {
                const W exact = power_of_two(rounded_product(c[i], exponent) - log_total[Own::slot(i)]);
                c[i] = allowed.at(i) ? exact : W(0);
                sum[Own::slot(i)] += c[i] * g[i];
            }
        }
    sum_of_lanes<T>(sum);
#pragma unroll
    for (int slot = 0; slot < Own::ROWS; slot++)
        if (!sums_row) sum[slot] = delta[slot];
#pragma unroll
    for (int group = 0; group < 4; group++)
        if (used >> group & 1) {
#pragma unroll
            for (int i = 8 * group; i < 8 * group + 8; i += 2) {
                const W g_first = g[i] - sum[Own::slot(i)], g_second = g[i + 1] - sum[Own::slot(i)];
                g_scores.set(i, c[i] * g_first * times, c[i + 1] * g_second * times);
            }
            if (drop.below) kept.clear_others(c, group);
#pragma unroll
            for (int i = 8 * group; i < 8 * group + 8; i += 2) p.set(i, c[i], c[i + 1]);
        }
}

// Σ g_y · y of the queries of whose rows this thread holds elements.
template <class T>
__device__ inline void sum_products(Wide<T> (&delta)[Owned<T>::ROWS], const T* y, const T* g_y,
                                    const AttentionShape& shape, i64 b, i64 h, int t0) {
#pragma unroll
    for (int slot = 0; slot < Owned<T>::ROWS; slot++) {
        const int t = t0 + Owned<T>::row(slot);
        delta[slot] = 0;
        for (int m = threadIdx.x % Owned<T>::LANES * GROUP; t < shape.t && m < shape.v_width;
             m += Owned<T>::LANES * GROUP) {
            const Group<T> left = load_group(at(y, shape.y, b, h, t) + m, shape.v_width - m);
            const Group<T> right = load_group(at(g_y, shape.g_y, b, h, t) + m, shape.v_width - m);
            for (int i = 0; i < GROUP; i++) delta[slot] += Wide<T>(left.at[i]) * Wide<T>(right.at[i]);
        }
    }
    sum_of_lanes<T>(delta);
}

// g_k and g_v, and g_q where all keys are in one tile; else `deltas` [B · H, T] has Σ g_y · y · P(keep).  ONE_TILE: queries are in
// one tile too.  Grid: B · H × tiles of keys.
template <class T, bool ONE_TILE, int HEAD>
__global__ void __launch_bounds__(THREADS, blocks<T, HEAD>(ONE_TILE ? 5 : 3, 4, ONE_TILE ? 0 : 2))
attention_backward(const T* q, const T* k, const T* v, const bool* mask, const T* g_y, const Wide<T>* log_totals,
                   const Wide<T>* deltas, T* g_q, T* g_k, T* g_v, AttentionShape shape, Wide<T> scale, Drop drop) {
    typedef Wide<T> W;
    __shared__ unsigned groups_of_warps[THREADS / 32];
    DYNAMIC_SHARED(memory);
    Tiles<T, ONE_TILE, HEAD> tiles(memory);
    const int LD = tiles.LD, CHUNKS = HEAD / TILE, warp = threadIdx.x / 32;
    const unsigned bh = blockIdx.x, b = bh / shape.heads, h = bh % shape.heads;
    const int s0 = blockIdx.y * TILE;
    const bool one_tile_of_keys = ONE_TILE || shape.s <= TILE;
    const W kept_scale = drop.below ? W(drop.scale) : W(1);
    tiles.load_keys(k, v, shape, bh, s0);
    W sum_k[CHUNKS][32] = {}, sum_v[CHUNKS][32] = {};
    for (int t0 = 0; t0 < (ONE_TILE ? 1 : shape.t); t0 += TILE) {
        const bool last = ONE_TILE || t0 + TILE >= shape.t;
        if (t0) __syncthreads();  // the last iteration has used its tiles
        tiles.load_queries(q, g_y, shape, bh, t0);
        const unsigned allowed = allowed_bits(mask, shape, b, h, t0 + warp * 16, s0);
        const unsigned kept = kept_bits(drop, shape, bh, t0 + warp * 16, s0), groups = groups_of_keys<T>(allowed);
        W log_total[Owned<T>::ROWS], delta[Owned<T>::ROWS];
#pragma unroll
        for (int slot = 0; slot < Owned<T>::ROWS; slot++) {
            const int t = t0 + Owned<T>::row(slot);
            log_total[slot] = t < shape.t ? log_totals[i64(bh) * shape.t + t] : infinity<W>();
            delta[slot] = t < shape.t && !one_tile_of_keys ? deltas[i64(bh) * shape.t + t] : W(0);
        }
        wait_for_tiles<T>();
        Weights<T> p, g_scores;
        score_gradients(p, g_scores, tiles, log_total, delta, allowed, kept, groups, one_tile_of_keys, scale, drop);
        if (!ONE_TILE) p.store(tiles.p, groups), g_scores.store(tiles.g_scores, groups), __syncwarp();
        if (one_tile_of_keys)
#pragma unroll
            for (int chunk = 0; chunk < CHUNKS; chunk++) {
                W sum_q[32] = {};
                multiply_weights(sum_q, g_scores, tiles.g_scores, tiles.k + chunk * TILE, LD, groups);
                store_tile<T>(at(g_q, shape.g_q, b, h, t0) + chunk * TILE, shape.g_q.row, shape.t - t0,
                              shape.k_width - chunk * TILE, sum_q, [](int) { return W(1); });
            }
        if (ONE_TILE) {
            __syncthreads();  // all warps have used k and v
            p.store(tiles.p, groups), g_scores.store(tiles.g_scores, groups);
        }
        groups_of_warps[warp] = groups;
        __syncthreads();
        unsigned groups_of_queries = 0;  // that any of this warp's keys are for
#pragma unroll
        for (int i = 0; i < THREADS / 32; i++) groups_of_queries |= (groups_of_warps[i] >> warp & 1) << i;
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            multiply_transposed(sum_v[chunk], tiles.p, tiles.g_y + chunk * TILE, LD, groups_of_queries);
            if (last)
                store_tile<T>(at(g_v, shape.g_v, b, h, s0) + chunk * TILE, shape.g_v.row, shape.s - s0,
                              shape.v_width - chunk * TILE, sum_v[chunk], [&](int) { return kept_scale; });
            multiply_transposed(sum_k[chunk], tiles.g_scores, tiles.q + chunk * TILE, LD, groups_of_queries);
            if (last)
                store_tile<T>(at(g_k, shape.g_k, b, h, s0) + chunk * TILE, shape.g_k.row, shape.s - s0,
                              shape.k_width - chunk * TILE, sum_k[chunk], [](int) { return W(1); });
        }
    }
}

// g_q where keys fill several tiles, and `deltas` for attention_backward.  Grid: B · H × tiles of queries.
template <class T, int HEAD>
__global__ void __launch_bounds__(THREADS, blocks<T, HEAD>(4, 4, 2))
attention_backward_queries(const T* q, const T* k, const T* v, const bool* mask, const T* g_y,
                           const Wide<T>* log_totals, Wide<T>* deltas, const T* y, T* g_q, AttentionShape shape,
                           Wide<T> scale, Drop drop) {
    typedef Wide<T> W;
    DYNAMIC_SHARED(memory);
    Tiles<T, false, HEAD> tiles(memory);
    const int CHUNKS = HEAD / TILE;
    const unsigned bh = blockIdx.x, b = bh / shape.heads, h = bh % shape.heads;
    const int t0 = blockIdx.y * TILE, warp_t = t0 + threadIdx.x / 32 * 16;
    tiles.load_queries(q, g_y, shape, bh, t0);
    W log_total[Owned<T>::ROWS], delta[Owned<T>::ROWS];
    sum_products(delta, y, g_y, shape, b, h, t0);
#pragma unroll
    for (int slot = 0; slot < Owned<T>::ROWS; slot++) {
        const int t = t0 + Owned<T>::row(slot);
        log_total[slot] = t < shape.t ? log_totals[i64(bh) * shape.t + t] : infinity<W>();
        if (drop.below) delta[slot] /= W(drop.scale);  // as p is without that factor
        if (t < shape.t && threadIdx.x % Owned<T>::LANES == 0) deltas[i64(bh) * shape.t + t] = delta[slot];
    }
    W sum_q[CHUNKS][32] = {};
    for (int s0 = 0; s0 < shape.s; s0 += TILE) {
        if (s0) __syncthreads();  // the last iteration has used its tiles
        tiles.load_keys(k, v, shape, bh, s0);
        const unsigned allowed = allowed_bits(mask, shape, b, h, warp_t, s0), groups = groups_of_keys<T>(allowed);
        const unsigned kept = kept_bits(drop, shape, bh, warp_t, s0);
        wait_for_tiles<T>();
        Weights<T> p, g_scores;
        score_gradients(p, g_scores, tiles, log_total, delta, allowed, kept, groups, false, scale, drop);
        if (sizeof(T) != 2) g_scores.store(tiles.g_scores, groups), __syncwarp();
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS; chunk++)
            multiply_weights(sum_q[chunk], g_scores, tiles.g_scores, tiles.k + chunk * TILE, tiles.LD, groups);
    }
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk++)
        store_tile<T>(at(g_q, shape.g_q, b, h, t0) + chunk * TILE, shape.g_q.row, shape.t - t0,
                      shape.k_width - chunk * TILE, sum_q[chunk], [](int) { return W(1); });
}
