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

// Blocks a multiprocessor has shared memory for; a bound on registers for more of them would only cause spills.
template <class T, int HEAD> __device__ constexpr int blocks() {
    return sizeof(T) * HEAD == 128 ? 3 : sizeof(T) * HEAD == 256 ? 2 : 1;
}

struct Place {  // strides of an array [B, H, rows, columns], in elements; columns are adjacent
    i64 batch, head, row;
};

struct AttentionShape {
    Place q, k, v, y, g_y, g_q, g_k, g_v;
    i64 mask[4];            // strides of the mask [B, H, T, S]; 0 along axes that it is broadcast over
    int heads, t, s, k_width, v_width, unused;
};

// ---- Products of tiles -----------------------------------------------------------------------------------------------
// c[64 × 64] += a[64 × INNER] · b[INNER × 64], all three in shared memory or registers.  `A_T`: element (i, k) of a
// stands at a[k · ld + i], else at a[i · ld + k]; `B_T` likewise: (k, j) stands at b[j · ld + k], else at b[k · ld + j].
// Each thread holds 32 elements of c, those at (Owned::row(i), Owned::column(i)), in ROWS rows; `slot(i)` numbers them.
// LANES neighbouring lanes of a warp hold a row together.

template <class T> struct Owned {  // 4 neighbouring rows, every 8th column
    static const int ROWS = 4, LANES = 8;
    __device__ static int slot(int i) { return i / 8; }
    __device__ static int row(int i) { return threadIdx.x / 8 * 4 + i / 8; }
    __device__ static int column(int i) { return threadIdx.x % 8 + i % 8 * 8; }
};

template <> struct Owned<bf16> {  // what mma.sync gives a lane: 16 rows a warp, pairs of columns
    static const int ROWS = 2, LANES = 4;
    __device__ static int slot(int i) { return i / 2 % 2; }
    __device__ static int row(int i) { return threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + i / 2 % 2 * 8; }
    __device__ static int column(int i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }
};

template <bool A_T, bool B_T, int INNER, class T>
__device__ inline void multiply(T (&c)[32], const T* a, int a_ld, const T* b, int b_ld) {
    const int row = threadIdx.x / 8 * 4, column = threadIdx.x % 8;
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

// d[16 × 8] += a[16 × 16] · b[16 × 8] by a warp.
__device__ inline void mma(float* d, const unsigned (&a)[4], unsigned b0, unsigned b1) {
#ifdef __CUDACC__
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
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

template <bool A_T, bool B_T, int INNER>
__device__ inline void multiply(float (&c)[32], const bf16* a, int a_ld, const bf16* b, int b_ld) {
    const int a_row = A_T ? 1 : a_ld, a_k = A_T ? a_ld : 1, b_k = B_T ? 1 : b_ld, b_column = B_T ? b_ld : 1;
    // of the four matrices of a, the second and the fourth are 8 rows on; of b, 8 along k
    const int within = threadIdx.x % 8, second = threadIdx.x / 8 % 2 * 8, third = threadIdx.x / 16 % 2 * 8;
    a += (threadIdx.x / 32 * 16 + second) * a_row + third * a_k + within * a_ld;
    b += second * b_k + third * b_column + within * b_ld;
#pragma unroll 1
    for (int k = 0; k < INNER; k += 16) {
        unsigned x[4], y[4];  // y: of two times 8 columns
        load_matrices<A_T>(x, a + k * a_k);
#pragma unroll
        for (int j = 0; j < 8; j += 2) {
            load_matrices<!B_T>(y, b + k * b_k + 8 * j * b_column);
            mma(c + 4 * j, x, y[0], y[1]);
            mma(c + 4 * j + 4, x, y[2], y[3]);
        }
    }
}

// ---- Tiles in and out of shared memory -------------------------------------------------------------------------------

template <class T> __device__ constexpr int padding() { return sizeof(T) == 2 ? 8 : 1; }  // against bank conflicts

// Row-major, WIDTH columns; elements beyond `rows` and `columns` become 0, so they add nothing to a product.
template <class T, int WIDTH>
__device__ inline void load_tile(T* tile, const T* from, i64 row_stride, int rows, int columns) {
    const int per_row = WIDTH / 8;  // groups of 8 elements
    for (int job = threadIdx.x; job < TILE * per_row; job += THREADS) {
        const int r = job / per_row, c = job % per_row * 8;
        T* to = tile + r * (WIDTH + padding<T>()) + c;
        const T* source = from + r * row_stride + c;
        if (sizeof(T) == 2 && r < rows && c + 8 <= columns && (u64)source % 16 == 0)
            *(uint4*)to = *(const uint4*)source;
        else
#pragma unroll
            for (int i = 0; i < 8; i++) to[i] = r < rows && c + i < columns ? source[i] : T(0.0f);
    }
}

// Two elements of a row that a thread holds: of bf16, neighbours, in one store of 4 bytes.
template <class T> __device__ inline void store_pair(T* row, int first, int second, T x, T y) {
    struct alignas(2 * sizeof(T)) { T x, y; } const pair = {x, y};
    if (sizeof(T) == 2) *(unsigned*)(row + first) = *(const unsigned*)&pair;
    else row[first] = x, row[second] = y;
}

// Rows × columns of a product held in registers, times `factor(row)`.
template <class T, int CHUNKS, class Factor>
__device__ inline void store_tile(T* to, i64 row_stride, int rows, int columns, const Wide<T> (&c)[CHUNKS][32],
                                  Factor factor) {
#pragma unroll
    for (int chunk = 0; chunk < CHUNKS; chunk++)
#pragma unroll
        for (int i = 0; i < 32; i += 2) {  // two elements of a row; of bf16, neighbours, which are one store
            const int row = Owned<T>::row(i), column = chunk * TILE + Owned<T>::column(i);
            const int other = chunk * TILE + Owned<T>::column(i + 1);
            if (row >= rows) continue;
            T* place = to + row * row_stride;
            const T x = T(c[chunk][i] * factor(row)), y = T(c[chunk][i + 1] * factor(row));
            if (other < columns && (u64)(place + column) % (2 * sizeof(T)) == 0) store_pair(place, column, other, x, y);
            else {
                if (column < columns) place[column] = x;
                if (other < columns) place[other] = y;
            }
        }
}

template <class T> __device__ inline T* at(T* array, const Place& place, i64 b, i64 h, i64 row) {
    return array + b * place.batch + h * place.head + row * place.row;
}

// A bit for each of the 32 keys from s on: may query t attend to it?
__device__ inline unsigned allowed_bits(const bool* mask, const AttentionShape& shape, i64 b, i64 h, int t, int s) {
    unsigned bits = 0;
    if (t >= shape.t) return bits;
    if (mask) mask += b * shape.mask[0] + h * shape.mask[1] + t * shape.mask[2];
    for (int i = 0; i < 32 && s + i < shape.s; i++) bits |= unsigned(!mask || mask[(s + i) * shape.mask[3]]) << i;
    return bits;
}

// A bit for each of the weights of these keys: does dropout keep it?
__device__ inline unsigned kept_bits(const Drop& drop, const AttentionShape& shape, i64 bh, int t, int s) {
    const u64 position = (u64(bh) * shape.t + t) * shape.s + s;
    return keep_bits(drop, position) | keep_bits(drop, position + GROUP) << GROUP;
}

// ---- Forward ---------------------------------------------------------------------------------------------------------

// y = dropout(p) v with p = softmax(scale · q kᵀ + mask), and log_total [B · H, T] = ln Σ exp(scores), ∞ for a query
// that may attend to nothing.  Grid: B · H × tiles of queries.
template <class T, int HEAD>
__global__ void __launch_bounds__(THREADS, blocks<T, HEAD>())
attention(const T* q, const T* k, const T* v, const bool* mask, T* y, Wide<T>* log_total,
                          AttentionShape shape, Wide<T> scale, Drop drop) {
    typedef Wide<T> W;
    const int LD = HEAD + padding<T>(), P_LD = TILE + padding<T>(), S_LD = TILE + 1;
    DYNAMIC_SHARED(memory);
    W* scores = (W*)memory;          // [64, 65]
    W* top = scores + TILE * S_LD;   // of each query: the largest score so far,
    W* total = top + TILE;           // Σ exp(score - top),
    W* factor = total + TILE;        // exp(the last top - top): the factor of earlier sums
    T* q_tile = (T*)(factor + TILE);
    T* k_tile = q_tile + TILE * LD;
    T* v_tile = k_tile + TILE * LD;
    T* p_tile = v_tile + TILE * LD;  // [64, 64 + padding]

    const i64 bh = blockIdx.x, b = bh / shape.heads, h = bh % shape.heads;
    const int t0 = blockIdx.y * TILE, row = threadIdx.x / 2, half = threadIdx.x % 2 * 32;
    load_tile<T, HEAD>(q_tile, at(q, shape.q, b, h, t0), shape.q.row, shape.t - t0, shape.k_width);
    if (threadIdx.x < TILE) top[threadIdx.x] = -infinity<W>(), total[threadIdx.x] = 0;
    W out[HEAD / TILE][32] = {};
    for (int s0 = 0; s0 < shape.s; s0 += TILE) {
        __syncthreads();  // the last iteration has used its tiles
        load_tile<T, HEAD>(k_tile, at(k, shape.k, b, h, s0), shape.k.row, shape.s - s0, shape.k_width);
        load_tile<T, HEAD>(v_tile, at(v, shape.v, b, h, s0), shape.v.row, shape.s - s0, shape.v_width);
        __syncthreads();
        W c[32] = {};
        multiply<false, true, HEAD>(c, q_tile, LD, k_tile, LD);
#pragma unroll
        for (int i = 0; i < 32; i++) scores[Owned<T>::row(i) * S_LD + Owned<T>::column(i)] = c[i] * scale;
        __syncthreads();
        {  // two threads a query
            const W* mine = scores + row * S_LD + half;
            const unsigned allowed = allowed_bits(mask, shape, b, h, t0 + row, s0 + half);
            const unsigned kept = drop.below ? kept_bits(drop, shape, bh, t0 + row, s0 + half) : 0;
            W new_top = top[row], sum = 0;
            for (int i = 0; i < 32; i++)
                if (allowed >> i & 1) new_top = larger(new_top, mine[i]);
            new_top = larger(new_top, __shfl_xor_sync(0xffffffffu, new_top, 1));
            const W base = new_top == -infinity<W>() ? W(0) : new_top;
            for (int i = 0; i < 32; i++) {
                const W p = allowed >> i & 1 ? exponential(mine[i] - base) : W(0);
                sum += p;
                p_tile[row * P_LD + half + i] = T(drop.below ? dropped(p, kept, i, drop) : p);
            }
            sum += __shfl_xor_sync(0xffffffffu, sum, 1);
            __syncwarp();  // both threads have read top[row]
            if (half == 0) {
                factor[row] = exponential(top[row] - base);
                total[row] = total[row] * factor[row] + sum;
                top[row] = new_top;
            }
        }
        __syncthreads();
#pragma unroll
        for (int chunk = 0; chunk < HEAD / TILE; chunk++) {
#pragma unroll
            for (int i = 0; i < 32; i++) out[chunk][i] *= factor[Owned<T>::row(i)];
            multiply<false, false, TILE>(out[chunk], p_tile, P_LD, v_tile + chunk * TILE, LD);
        }
    }
    __syncthreads();
    store_tile<T>(at(y, shape.y, b, h, t0), shape.y.row, shape.t - t0, shape.v_width, out,
                  [&](int r) { return total[r] == 0 ? W(0) : 1 / total[r]; });
    if (threadIdx.x < TILE && t0 + threadIdx.x < shape.t)
        log_total[bh * shape.t + t0 + threadIdx.x] =
            total[threadIdx.x] == 0 ? infinity<W>() : top[threadIdx.x] + logarithm(total[threadIdx.x]);
}

// ---- Backward --------------------------------------------------------------------------------------------------------

template <class T, int HEAD> struct Tiles {  // shared memory of a block
    static const int LD = HEAD + padding<T>(), P_LD = TILE + padding<T>();
    Wide<T>*delta, *log_total;  // of each query: Σ g_y · y where keys fill several tiles, and ln Σ exp(scores)
    unsigned *allowed, *kept;   // of each query: 64 bits
    T *q, *k, *v, *g_y;         // [64, LD]
    T *p, *g_scores;            // [64, P_LD]: dropout(p), and the gradient of q kᵀ

    __device__ Tiles(unsigned char* memory) {
        delta = (Wide<T>*)memory, log_total = delta + TILE;
        allowed = (unsigned*)(log_total + TILE), kept = allowed + 2 * TILE;
        q = (T*)(kept + 2 * TILE), k = q + TILE * LD, v = k + TILE * LD, g_y = v + TILE * LD;
        p = g_y + TILE * LD, g_scores = p + TILE * P_LD;
    }
};

template <class T, int HEAD>
__device__ inline void load_queries(Tiles<T, HEAD>& tiles, const T* q, const T* y, const T* g_y,
                                    const Wide<T>* log_total, const AttentionShape& shape, i64 bh, int t0) {
    typedef Wide<T> W;
    const i64 b = bh / shape.heads, h = bh % shape.heads;
    load_tile<T, HEAD>(tiles.q, at(q, shape.q, b, h, t0), shape.q.row, shape.t - t0, shape.k_width);
    load_tile<T, HEAD>(tiles.g_y, at(g_y, shape.g_y, b, h, t0), shape.g_y.row, shape.t - t0, shape.v_width);
    const int row = threadIdx.x / 2, t = t0 + row;
    W delta = 0;
    if (shape.s > TILE && t < shape.t) {
        const T *y_row = at(y, shape.y, b, h, t), *g_row = at(g_y, shape.g_y, b, h, t);
        for (int m = threadIdx.x % 2; m < shape.v_width; m += 2) delta += W(y_row[m]) * W(g_row[m]);
    }
    delta += __shfl_xor_sync(0xffffffffu, delta, 1);
    if (threadIdx.x % 2 == 0) {
        tiles.delta[row] = delta;
        tiles.log_total[row] = t < shape.t ? log_total[bh * shape.t + t] : infinity<W>();
    }
}

template <class T, int HEAD>
__device__ inline void load_keys(Tiles<T, HEAD>& tiles, const T* k, const T* v, const AttentionShape& shape, i64 bh,
                                 int s0) {
    const i64 b = bh / shape.heads, h = bh % shape.heads;
    load_tile<T, HEAD>(tiles.k, at(k, shape.k, b, h, s0), shape.k.row, shape.s - s0, shape.k_width);
    load_tile<T, HEAD>(tiles.v, at(v, shape.v, b, h, s0), shape.v.row, shape.s - s0, shape.v_width);
}

// From the loaded tiles, dropout(p) and the gradient of q kᵀ:  p · (g - Σ p · g) · scale with g = dropout(g_y vᵀ).
//
// The sum over all keys is that of a row, where they are one tile: a query whose weight is all on one key then has the
// gradient 0, not the rounding of numbers that may be large.  It equals Σ g_y · y, which serves where keys fill several.
template <class T, int HEAD>
__device__ inline void score_gradients(Tiles<T, HEAD>& tiles, const bool* mask, const AttentionShape& shape, i64 bh,
                                       int t0, int s0, Wide<T> scale, const Drop& drop) {
    typedef Wide<T> W;
    const int LD = Tiles<T, HEAD>::LD, P_LD = Tiles<T, HEAD>::P_LD;
    const int t = t0 + threadIdx.x / 2, s = s0 + threadIdx.x % 2 * 32;
    tiles.allowed[threadIdx.x] = allowed_bits(mask, shape, bh / shape.heads, bh % shape.heads, t, s);
    if (drop.below) tiles.kept[threadIdx.x] = kept_bits(drop, shape, bh, t, s);
    __syncthreads();  // also for the tiles loaded before
    const bool one_tile = shape.s <= TILE;
    W c[32] = {}, g[32] = {}, delta[Owned<T>::ROWS] = {};
    multiply<false, true, HEAD>(c, tiles.q, LD, tiles.k, LD);
    multiply<false, true, HEAD>(g, tiles.g_y, LD, tiles.v, LD);
#pragma unroll
    for (int i = 0; i < 32; i++) {
        const int row = Owned<T>::row(i), column = Owned<T>::column(i), word = row * 2 + column / 32;
        const bool allowed = tiles.allowed[word] >> column % 32 & 1;
        const W p = allowed ? exponential(rounded_product(c[i], scale) - tiles.log_total[row]) : W(0);
        const W weight = !drop.below ? W(1) : tiles.kept[word] >> column % 32 & 1 ? W(drop.scale) : W(0);
        tiles.p[row * P_LD + column] = T(p * weight);
        c[i] = p, g[i] *= weight;
        W& sum = delta[Owned<T>::slot(i)];
        sum = one_tile ? sum + p * g[i] : tiles.delta[row];
    }
#pragma unroll
    for (int r = 0; r < Owned<T>::ROWS; r++)
        for (int lane = 1; one_tile && lane < Owned<T>::LANES; lane *= 2)
            delta[r] += __shfl_xor_sync(0xffffffffu, delta[r], lane);
#pragma unroll
    for (int i = 0; i < 32; i += 2) {
        const W sum = delta[Owned<T>::slot(i)];
        store_pair(tiles.g_scores + Owned<T>::row(i) * P_LD, Owned<T>::column(i), Owned<T>::column(i + 1),
                   T(c[i] * (g[i] - sum) * scale), T(c[i + 1] * (g[i + 1] - sum) * scale));
    }
    __syncthreads();
}

// g_k and g_v, and g_q where all keys are in one tile.  Grid: B · H × tiles of keys.
template <class T, int HEAD>
__global__ void __launch_bounds__(THREADS, blocks<T, HEAD>())
attention_backward(const T* q, const T* k, const T* v, const bool* mask, const T* y, const T* g_y,
                                   const Wide<T>* log_total, T* g_q, T* g_k, T* g_v, AttentionShape shape,
                                   Wide<T> scale, Drop drop) {
    typedef Wide<T> W;
    DYNAMIC_SHARED(memory);
    Tiles<T, HEAD> tiles(memory);
    const int LD = Tiles<T, HEAD>::LD, P_LD = Tiles<T, HEAD>::P_LD, CHUNKS = HEAD / TILE;
    const i64 bh = blockIdx.x, b = bh / shape.heads, h = bh % shape.heads;
    const int s0 = blockIdx.y * TILE;
    const auto once = [](int) { return W(1); };
    load_keys(tiles, k, v, shape, bh, s0);
    W sum_k[CHUNKS][32] = {}, sum_v[CHUNKS][32] = {};
    for (int t0 = 0; t0 < shape.t; t0 += TILE) {
        __syncthreads();
        load_queries(tiles, q, y, g_y, log_total, shape, bh, t0);
        score_gradients(tiles, mask, shape, bh, t0, s0, scale, drop);
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS; chunk++) {
            multiply<true, false, TILE>(sum_v[chunk], tiles.p, P_LD, tiles.g_y + chunk * TILE, LD);
            multiply<true, false, TILE>(sum_k[chunk], tiles.g_scores, P_LD, tiles.q + chunk * TILE, LD);
        }
        if (shape.s <= TILE) {
            W sum_q[CHUNKS][32] = {};
#pragma unroll
            for (int chunk = 0; chunk < CHUNKS; chunk++)
                multiply<false, false, TILE>(sum_q[chunk], tiles.g_scores, P_LD, tiles.k + chunk * TILE, LD);
            store_tile<T>(at(g_q, shape.g_q, b, h, t0), shape.g_q.row, shape.t - t0, shape.k_width, sum_q, once);
        }
    }
    store_tile<T>(at(g_k, shape.g_k, b, h, s0), shape.g_k.row, shape.s - s0, shape.k_width, sum_k, once);
    store_tile<T>(at(g_v, shape.g_v, b, h, s0), shape.g_v.row, shape.s - s0, shape.v_width, sum_v, once);
}

// g_q where keys fill several tiles.  Grid: B · H × tiles of queries.
template <class T, int HEAD>
__global__ void __launch_bounds__(THREADS, blocks<T, HEAD>())
attention_backward_queries(const T* q, const T* k, const T* v, const bool* mask, const T* y,
                                           const T* g_y, const Wide<T>* log_total, T* g_q, AttentionShape shape,
                                           Wide<T> scale, Drop drop) {
    typedef Wide<T> W;
    DYNAMIC_SHARED(memory);
    Tiles<T, HEAD> tiles(memory);
    const int LD = Tiles<T, HEAD>::LD, P_LD = Tiles<T, HEAD>::P_LD, CHUNKS = HEAD / TILE;
    const i64 bh = blockIdx.x, b = bh / shape.heads, h = bh % shape.heads;
    const int t0 = blockIdx.y * TILE;
    load_queries(tiles, q, y, g_y, log_total, shape, bh, t0);
    W sum_q[CHUNKS][32] = {};
    for (int s0 = 0; s0 < shape.s; s0 += TILE) {
        __syncthreads();
        load_keys(tiles, k, v, shape, bh, s0);
        score_gradients(tiles, mask, shape, bh, t0, s0, scale, drop);
#pragma unroll
        for (int chunk = 0; chunk < CHUNKS; chunk++)
            multiply<false, false, TILE>(sum_q[chunk], tiles.g_scores, P_LD, tiles.k + chunk * TILE, LD);
    }
    store_tile<T>(at(g_q, shape.g_q, b, h, t0), shape.g_q.row, shape.t - t0, shape.k_width, sum_q,
                  [](int) { return W(1); });
}
