// A GPU that is none, for the real CuPy: driver, runtime, cuBLAS, cuBLASLt and NCCL, in one library.
//
// Memory of the GPU is memory of the host.  Calls are counted by name, launches checked against the limits of a card
// with 227 KiB of shared memory, and calls that are illegal while a stream is captured fail as CUDA's do.  Kernels and
// products do nothing, unless `stub_hook` is set: it is told what to compute (stub.py).
//
// STUB_DEVICES, STUB_CAPABILITY, STUB_DRIVER, STUB_GIB: another machine.  STUB_NCCL=hang: sums that never end;
// =error: and NCCL says why.

#define _GNU_SOURCE
#include <cuda_runtime_api.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define OUT_OF_MEMORY 2
#define CAPTURE_UNSUPPORTED 900
#define NOT_READY 600
enum { MOST = 4096, SHARED_LIMIT = 232448 };

static long setting(const char* name, long otherwise) {
    const char* text = getenv(name);
    return text ? atol(text) : otherwise;
}

// ---- Counting ----

static struct { char name[200]; long calls, bytes; } counted[MOST];
static int names;
static pthread_mutex_t naming = PTHREAD_MUTEX_INITIALIZER;

static int place_of(const char* name) {
    pthread_mutex_lock(&naming);
    int at = 0;
    while (at < names && strncmp(counted[at].name, name, sizeof counted->name - 1)) at++;
    if (at == names && names < MOST - 1) strncpy(counted[names++].name, name, sizeof counted->name - 1);
    pthread_mutex_unlock(&naming);
    return at;
}

static void count_at(int at, long bytes) {
    __atomic_add_fetch(&counted[at].calls, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&counted[at].bytes, bytes, __ATOMIC_RELAXED);
}

#define COUNT(name, bytes) do { static int at_ = -1; if (at_ < 0) at_ = place_of(name); count_at(at_, bytes); } while (0)

void stub_reset(void) { for (int i = 0; i < names; i++) counted[i].calls = counted[i].bytes = 0; }
int stub_count(int i, char* name, long* calls, long* bytes) {
    if (i >= names) return 0;
    strcpy(name, counted[i].name), *calls = counted[i].calls, *bytes = counted[i].bytes;
    return 1;
}

// ---- What is to be computed ----

enum { LAUNCH, COPY, SET, PRODUCT, BEGIN, END, REPEAT, SUM };
long (*stub_hook)(int what, const long* arguments);
#define TELL(what, ...) (stub_hook ? stub_hook(what, (const long[]){__VA_ARGS__}) : 0)

static long fault(const char* text) {
    fprintf(stderr, "the card that is none: %s\n", text);
    COUNT("FAULT", 0);
    return 1;
}

// ---- Streams, events, captures ----

typedef struct { int hangs; } Stream;
static Stream null_stream;
static Stream* capturing;  // the stream that is captured
static long graphs;
static __thread int device;
static Stream* stream_of(void* s) { return (long)s < 16 ? &null_stream : s; }
#define NOT_IN_CAPTURE(name) do { if (capturing) { fault(name " while a stream is captured"); return CAPTURE_UNSUPPORTED; } } while (0)
static void wait_for(Stream* s) { while (__atomic_load_n(&s->hangs, __ATOMIC_RELAXED)) usleep(1000); }

int stub_zero(void) { return 0; }
int stub_cudaStreamCreate(void** s) { *s = calloc(1, sizeof(Stream) + 32); return 0; }
int stub_cudaStreamCreateWithFlags(void** s, unsigned flags) { return stub_cudaStreamCreate(s); }
int stub_cudaStreamCreateWithPriority(void** s, unsigned flags, int priority) { return stub_cudaStreamCreate(s); }
int stub_cudaStreamSynchronize(void* s) { NOT_IN_CAPTURE("cudaStreamSynchronize"); COUNT("wait for stream", 0); wait_for(stream_of(s)); return 0; }
int stub_cudaDeviceSynchronize(void) { NOT_IN_CAPTURE("cudaDeviceSynchronize"); COUNT("wait for device", 0); wait_for(&null_stream); return 0; }
int stub_cudaStreamQuery(void* s) { return stream_of(s)->hangs ? NOT_READY : 0; }
int stub_cudaEventCreate(void** e) { COUNT("event created", 0); return stub_cudaStreamCreate(e); }
int stub_cudaEventCreateWithFlags(void** e, unsigned flags) { return stub_cudaEventCreate(e); }
int stub_cudaEventDestroy(void* e) { free(e); return 0; }
int stub_cudaEventRecord(void* e, void* s) { COUNT("event recorded", 0); ((Stream*)e)->hangs = stream_of(s)->hangs; return 0; }
int stub_cudaEventQuery(void* e) { COUNT("event queried", 0); return ((Stream*)e)->hangs ? NOT_READY : 0; }
int stub_cudaEventSynchronize(void* e) { NOT_IN_CAPTURE("cudaEventSynchronize"); COUNT("wait for event", 0); wait_for(e); return 0; }
int stub_cudaEventElapsedTime(float* ms, void* a, void* b) { *ms = 1; return 0; }
int stub_cudaStreamWaitEvent(void* s, void* e, unsigned flags) { COUNT("stream waits for event", 0); stream_of(s)->hangs |= ((Stream*)e)->hangs; return 0; }
int stub_cudaStreamIsCapturing(void* s, int* status) { *status = capturing && stream_of(s) == capturing; return 0; }
int stub_cudaStreamGetCaptureInfo(void* s, int* status, void* a, void* b, void* c, void* d, void* e) { return stub_cudaStreamIsCapturing(s, status); }
int stub_cudaStreamBeginCapture(void* s, int mode) {
    if ((long)s < 16) return fault("the null stream cannot be captured"), CAPTURE_UNSUPPORTED;
    COUNT("capture", 0);
    TELL(BEGIN, 0);
    capturing = s;
    return 0;
}
int stub_cudaStreamEndCapture(void* s, void** graph) { capturing = NULL; *graph = (void*)++graphs; TELL(END, graphs); return 0; }
int stub_cudaGraphInstantiate(void** made, void* graph, unsigned long long flags) { *made = graph; COUNT("graph instantiated", 0); return 0; }
int stub_cudaGraphLaunch(void* made, void* s) { COUNT("graph launched", 0); return TELL(REPEAT, (long)made); }

// ---- Devices ----

static int devices(void) { return setting("STUB_DEVICES", 1); }
int stub_cudaGetDeviceCount(int* n) { return (*n = devices()) ? 0 : 100; }
int stub_cudaGetDevice(int* n) { *n = device; return 0; }
int stub_cudaSetDevice(int n) { COUNT("cudaSetDevice", 0); if (n >= devices()) return 101; device = n; return 0; }
int stub_cudaDriverGetVersion(int* v) { *v = setting("STUB_DRIVER", 13000); return 0; }
int stub_cudaRuntimeGetVersion(int* v) { *v = 13000; return 0; }
int stub_cudaDeviceGetAttribute(int* v, int attribute, int n) {
    const long capability = setting("STUB_CAPABILITY", 90);
    switch (attribute) {
        case 1: *v = 1024; break;  // threads a block
        case 8: *v = 49152; break;
        case 10: *v = 32; break;
        case 16: *v = 132; break;
        case 39: *v = 2048; break;
        case 75: *v = capability / 10; break;
        case 76: *v = capability % 10; break;
        case 81: *v = 233472; break;
        case 97: *v = SHARED_LIMIT; break;
        default: *v = 1;
    }
    return 0;
}
int stub_cudaGetDeviceProperties(struct cudaDeviceProp* p, int n) {
    memset(p, 0, sizeof *p);
    strcpy(p->name, "a card that is none");
    p->major = setting("STUB_CAPABILITY", 90) / 10, p->minor = setting("STUB_CAPABILITY", 90) % 10;
    p->totalGlobalMem = setting("STUB_GIB", 80) << 30, p->multiProcessorCount = 132, p->warpSize = 32;
    p->maxThreadsPerBlock = 1024, p->sharedMemPerBlockOptin = SHARED_LIMIT;
    return 0;
}
int stub_cudaPointerGetAttributes(struct cudaPointerAttributes* a, void* p) {
    memset(a, 0, sizeof *a);
    a->type = cudaMemoryTypeDevice, a->devicePointer = p;
    return 0;
}
int stub_cudaDeviceGetPCIBusId(char* text, int n, int d) { snprintf(text, n, "0000:%02x:00.0", d); return 0; }
int stub_cudaDeviceCanAccessPeer(int* can, int a, int b) { *can = 1; return 0; }
const char* stub_cudaGetErrorName(int e) {
    return e == OUT_OF_MEMORY ? "cudaErrorMemoryAllocation" : e == 100 ? "cudaErrorNoDevice" : e == NOT_READY ? "cudaErrorNotReady"
         : e == CAPTURE_UNSUPPORTED ? "cudaErrorStreamCaptureUnsupported" : "cudaErrorUnknown";
}
const char* stub_cudaGetErrorString(int e) { return e == CAPTURE_UNSUPPORTED ? "operation not permitted when stream is capturing" : "as the stub says"; }

// ---- Memory ----

static long held, most_held;
long stub_peak(void) { return most_held; }
int stub_cudaMalloc(void** p, size_t size) {
    COUNT("cudaMalloc", size);
    if (__atomic_add_fetch(&held, size, __ATOMIC_RELAXED) > setting("STUB_GIB", 80) << 30) { held -= size; return OUT_OF_MEMORY; }
    if (held > most_held) most_held = held;
    size_t whole = (size + 1023) / 512 * 512;
    char* block = aligned_alloc(512, whole);
    if (!block) return OUT_OF_MEMORY;
    if (stub_hook) memset(block, 0xff, whole);  // NaN until something is written
    *(size_t*)block = size;
    *p = block + 512;
    return 0;
}
int stub_cudaFree(void* p) { if (p) { char* block = (char*)p - 512; held -= *(size_t*)block; free(block); } return 0; }
int stub_cudaHostAlloc(void** p, size_t size, unsigned flags) { *p = aligned_alloc(512, (size + 511) / 512 * 512); return 0; }
int stub_cudaMallocHost(void** p, size_t size) { return stub_cudaHostAlloc(p, size, 0); }
int stub_cudaFreeHost(void* p) { free(p); return 0; }
int stub_cudaMemGetInfo(size_t* unused, size_t* all) { *all = setting("STUB_GIB", 80) << 30, *unused = *all - held; return 0; }
static const char* KINDS[] = {"copy on the host", "copy to the device", "copy to the host", "copy on the device", "copy"};
static void copy(void* to, const void* from, size_t size, int kind) {
    count_at(place_of(KINDS[kind]), size);
    if (capturing && (kind == 1 || kind == 2)) fault("a graph copies memory of the host");
    if (!stub_hook) memmove(to, from, size);
    else TELL(COPY, (long)to, (long)from, size);
}
int stub_cudaMemcpy(void* to, const void* from, size_t size, int kind) { NOT_IN_CAPTURE("cudaMemcpy"); copy(to, from, size, kind); return 0; }
int stub_cudaMemcpyAsync(void* to, const void* from, size_t size, int kind, void* s) {
    if (capturing && (long)s <= 2) memmove(to, from, size);  // on the default stream, which is not captured
    else copy(to, from, size, kind);
    return 0;
}
static void set(void* to, int value, size_t size) {
    COUNT("memset", size);
    if (stub_hook) TELL(SET, (long)to, value, size);
    else if (size < 1 << 20) memset(to, value, size);  // pages that nothing reads cost nothing
}
int stub_cudaMemset(void* to, int value, size_t size) { NOT_IN_CAPTURE("cudaMemset"); set(to, value, size); return 0; }
int stub_cudaMemsetAsync(void* to, int value, size_t size, void* s) { set(to, value, size); return 0; }

// ---- Kernels ----

typedef struct { char name[300]; const char* source; int shared, place; } Function;
#define DRIVER __attribute__((visibility("default")))
static long launch(Function* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void** arguments) {
    count_at(f->place, 0);
    if (!gx || !gy || !gz || gx > 0x7fffffff || gy > 65535 || gz > 65535 || !bx || !by || !bz || (long)bx * by * bz > 1024 || (int)shared > f->shared) {
        char text[500];
        snprintf(text, 500, "%s with grid %u %u %u, block %u %u %u, %u bytes shared of %d", f->name, gx, gy, gz, bx, by, bz, shared, f->shared);
        return fault(text);
    }
    return TELL(LAUNCH, (long)f->name, (long)f->source, gx, gy, gz, bx, by, bz, shared, (long)arguments);
}
int stub_cudaLaunchKernel(const void* f, dim3 g, dim3 b, void** a, size_t shared, void* s) { COUNT("kernel of Thrust or CUB", 0); return 0; }
int stub_cudaLaunchKernelExC(void* config, const void* f, void** a) { COUNT("kernel of Thrust or CUB", 0); return 0; }
int stub_cudaFuncGetAttributes(struct cudaFuncAttributes* a, const void* f) {
    memset(a, 0, sizeof *a);
    a->ptxVersion = a->binaryVersion = 90, a->maxThreadsPerBlock = 1024, a->numRegs = 32, a->maxDynamicSharedSizeBytes = SHARED_LIMIT;
    return 0;
}
int stub_cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* n, const void* f, int block, size_t shared) { *n = 2; return 0; }
int stub_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* n, const void* f, int block, size_t shared, unsigned flags) { *n = 2; return 0; }

DRIVER int cuInit(unsigned flags) { return devices() ? 0 : 100; }
DRIVER int cuDriverGetVersion(int* v) { return stub_cudaDriverGetVersion(v); }
DRIVER int cuGetErrorName(int e, const char** text) { *text = "CUDA_ERROR_OF_THE_STUB"; return 0; }
DRIVER int cuGetErrorString(int e, const char** text) { *text = "see standard error"; return 0; }
DRIVER int cuCtxGetCurrent(void** c) { *c = (void*)(0x100l + device); return 0; }
DRIVER int cuCtxSetCurrent(void* c) { return 0; }
DRIVER int cuCtxGetDevice(int* d) { *d = device; return 0; }
DRIVER int cuDevicePrimaryCtxRetain(void** c, int d) { *c = (void*)0x100; return 0; }
DRIVER int cuStreamGetCtx(void* s, void** c) { *c = (void*)0x100; return 0; }
DRIVER int cuDeviceGet(int* d, int i) { *d = i; return 0; }
DRIVER int cuDeviceGetCount(int* n) { *n = devices(); return 0; }
DRIVER int cuDeviceGetAttribute(int* v, int a, int d) { return stub_cudaDeviceGetAttribute(v, a, d); }
DRIVER int cuModuleLoadData(void** m, const void* image) { COUNT("module loaded", 0); *m = strdup(image); return 0; }
DRIVER int cuModuleUnload(void* m) { return 0; }
DRIVER int cuModuleGetFunction(void** f, void* m, const char* name) {
    Function* made = calloc(1, sizeof *made);
    char text[320];
    strncpy(made->name, name, sizeof made->name - 1);
    snprintf(text, 320, "kernel %s", name);
    made->source = m, made->shared = 49152, made->place = place_of(text);
    *f = made;
    return 0;
}
DRIVER int cuModuleGetGlobal_v2(void** p, size_t* n, void* m, const char* name) { *p = calloc(1, 4096); if (n) *n = 4096; return 0; }
DRIVER int cuFuncGetAttribute(int* v, int a, void* f) { *v = a == 8 ? ((Function*)f)->shared : a ? 64 : 1024; return 0; }
DRIVER int cuFuncSetAttribute(void* f, int a, int v) {
    COUNT("attribute of a kernel set", 0);
    if (a == 8 && v > SHARED_LIMIT) return fault("more shared memory than a block can have");
    if (a == 8) ((Function*)f)->shared = v;
    return 0;
}
DRIVER int cuLaunchKernel(void* f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void* s, void** arguments, void** extra) {
    return launch(f, gx, gy, gz, bx, by, bz, shared, arguments);
}
DRIVER int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n, void* f, int block, size_t shared) { *n = 2; return 0; }
DRIVER int cuOccupancyMaxPotentialBlockSize(int* grid, int* block, void* f, void* of, size_t shared, int limit) { *grid = 264, *block = 256; return 0; }
DRIVER int cuGetExportTable(const void** table, const void* id) { return 500; }

// ---- Products: column-major, each with addresses, types, leading dimensions and strides of a batch ----

static int product(const char* name, long compute, long ta, long tb, long m, long n, long k, const void* alpha, const void* a, long a_type, long lda, long a_stride,
                   const void* b, long b_type, long ldb, long b_stride, const void* beta, void* c, long c_type, long ldc, long c_stride, long batch, long epilogue, const void* vector) {
    const long size[] = {4, 8, 2, 0, 8, 16, 0, 0, 0, 0, 0, 0, 0, 0, 2};
    count_at(place_of(name), batch * (m * k * size[a_type] + k * n * size[b_type] + m * n * size[c_type]));
    if (lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m) return fault("a leading dimension below the rows of its matrix"), 7;
    return TELL(PRODUCT, compute, ta, tb, m, n, k, (long)alpha, (long)a, a_type, lda, a_stride, (long)b, b_type, ldb, b_stride, (long)beta, (long)c, c_type, ldc, c_stride, batch,
                epilogue, (long)vector);
}

int stub_cublasCreate_v2(void** h) { *h = malloc(64); return 0; }
int stub_cublasGetVersion_v2(void* h, int* v) { *v = 130000; return 0; }
int stub_cublasGetMathMode(void* h, int* m) { *m = 0; return 0; }
int stub_cublasGetPointerMode_v2(void* h, int* m) { *m = 0; return 0; }
int stub_cublasGemmEx(void* h, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int at, int lda, const void* b, int bt, int ldb, const void* beta, void* c, int ct, int ldc, int compute, int algo) {
    NOT_IN_CAPTURE("cuBLAS through CuPy");
    return product("product, cuBLAS", compute, ta, tb, m, n, k, alpha, a, at, lda, 0, b, bt, ldb, 0, beta, c, ct, ldc, 0, 1, 1, NULL);
}
int stub_cublasGemmStridedBatchedEx(void* h, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int at, int lda, long long as, const void* b, int bt, int ldb, long long bs,
                                    const void* beta, void* c, int ct, int ldc, long long cs, int batch, int compute, int algo) {
    return product("batch of products, cuBLAS", compute, ta, tb, m, n, k, alpha, a, at, lda, as, b, bt, ldb, bs, beta, c, ct, ldc, cs, batch, 1, NULL);
}
#define TYPED(letter, type, compute)                                                                                                                                                     \
    int stub_cublas##letter##gemm_v2(void* h, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int lda, const void* b, int ldb, const void* beta, void* c, int ldc) { \
        return product("product, cuBLAS", compute, ta, tb, m, n, k, alpha, a, type, lda, 0, b, type, ldb, 0, beta, c, type, ldc, 0, 1, 1, NULL);                                         \
    }                                                                                                                                                                                    \
    int stub_cublas##letter##gemmStridedBatched(void* h, int ta, int tb, int m, int n, int k, const void* alpha, const void* a, int lda, long long as, const void* b, int ldb,           \
                                                long long bs, const void* beta, void* c, int ldc, long long cs, int batch) {                                                             \
        return product("batch of products, cuBLAS", compute, ta, tb, m, n, k, alpha, a, type, lda, as, b, type, ldb, bs, beta, c, type, ldc, cs, batch, 1, NULL);                        \
    }                                                                                                                                                                                    \
    int stub_cublas##letter##gemmBatched(void* h, int ta, int tb, int m, int n, int k, const void* alpha, const void** a, int lda, const void** b, int ldb, const void* beta, void** c,  \
                                         int ldc, int batch) {                                                                                                                           \
        int status = 0;                                                                                                                                                                  \
        for (int i = 0; i < batch && !status; i++)                                                                                                                                       \
            status = product("batch of products, cuBLAS", compute, ta, tb, m, n, k, alpha, a[i], type, lda, 0, b[i], type, ldb, 0, beta, c[i], type, ldc, 0, 1, 1, NULL);                 \
        return status;                                                                                                                                                                   \
    }                                                                                                                                                                                    \
    int stub_cublas##letter##gemv_v2(void* h, int ta, int m, int n, const void* alpha, const void* a, int lda, const void* x, int x_step, const void* beta, void* y, int y_step) {       \
        if (y_step != 1) return fault("cublasgemv with a strided result"), 15;                                                                                                           \
        return product("product, cuBLAS", compute, ta, 1, ta ? n : m, 1, ta ? m : n, alpha, a, type, lda, 0, x, type, x_step, 0, beta, y, type, ta ? n : m, 0, 1, 1, NULL);               \
    }
TYPED(S, 0, 68)
TYPED(D, 1, 70)
TYPED(C, 4, 68)
TYPED(Z, 5, 70)

typedef struct { long at[64]; } Description;
int stub_cublasLtCreate(void** h) { *h = malloc(64); return 0; }
int stub_cublasLtMatmulDescCreate(void** d, int compute, int scale) { Description* made = *d = calloc(1, sizeof *made); made->at[60] = compute, made->at[7] = 1; COUNT("description made", 0); return 0; }
int stub_cublasLtMatmulDescDestroy(void* d) { COUNT("description destroyed", 0); free(d); return 0; }
int stub_cublasLtMatmulDescSetAttribute(Description* d, int a, const void* value, size_t size) { if (a < 60) d->at[a] = 0, memcpy(&d->at[a], value, size < 8 ? size : 8); return 0; }
int stub_cublasLtMatrixLayoutCreate(void** l, int type, unsigned long rows, unsigned long columns, long ld) {
    Description* made = *l = calloc(1, sizeof *made);
    made->at[0] = type, made->at[1] = rows, made->at[2] = columns, made->at[3] = ld;
    COUNT("layout made", 0);
    return ld < (long)rows ? 7 : 0;
}
int stub_cublasLtMatrixLayoutDestroy(void* l) { COUNT("layout destroyed", 0); free(l); return 0; }
int stub_cublasLtMatmulPreferenceCreate(void** p) { *p = calloc(1, sizeof(Description)); return 0; }
int stub_cublasLtMatmulPreferenceDestroy(void* p) { free(p); return 0; }
int stub_cublasLtMatmulAlgoGetHeuristic(void* h, Description* d, void* a, void* b, void* c, Description* result, void* preference, int wanted, void* results, int* found) {
    COUNT("heuristic asked", 0);
    if (d->at[7] & (4 | 512) && d->at[26] != result->at[0]) return fault("a bias of another type than the result"), 15;
    if (d->at[7] & 128 && (!d->at[11] || d->at[11] % 16 || d->at[12] % 128 || d->at[12] < result->at[1])) return fault("a mask of ReLU without room"), 15;
    memset(results, 0, 96);
    *found = 1;
    return 0;
}
int stub_cublasLtMatmul(void* h, Description* d, const void* alpha, const void* a, Description* la, const void* b, Description* lb, const void* beta, const void* c, void* lc, void* y, Description* ly,
                        const void* algo, void* workspace, size_t size, void* s) {
    const long k = d->at[3] ? la->at[1] : la->at[2];
    if (c != y) TELL(COPY, (long)y, (long)c, ly->at[2] * ly->at[3] * (ly->at[0] == 14 ? 2 : ly->at[0] ? 8 : 4));
    return product("product, cuBLASLt", d->at[60], d->at[3], d->at[4], ly->at[1], ly->at[2], k, alpha, a, la->at[0], la->at[3], 0, b, lb->at[0], lb->at[3], 0, beta, y, ly->at[0], ly->at[3], 0, 1,
                   d->at[7], (void*)d->at[8]);
}

// ---- NCCL: ranks exchange what they have through a file that all map ----

enum { SLOT = 1 << 22, RANKS = 8 };
typedef struct { int arrived, turn; char slot[RANKS][SLOT]; } Meeting;
typedef struct { Meeting* meeting; int rank, size, aborted; } Communicator;
typedef struct { char text[128]; } Identifier;

static void meet(Communicator* c) {
    const int turn = __atomic_load_n(&c->meeting->turn, __ATOMIC_ACQUIRE);
    if (__atomic_add_fetch(&c->meeting->arrived, 1, __ATOMIC_ACQ_REL) == c->size) {
        c->meeting->arrived = 0;
        __atomic_add_fetch(&c->meeting->turn, 1, __ATOMIC_RELEASE);
    } else while (__atomic_load_n(&c->meeting->turn, __ATOMIC_ACQUIRE) == turn) usleep(50);
}
int stub_ncclGetVersion(int* v) { *v = 22807; return 0; }
int stub_ncclGetUniqueId(Identifier* id) {
    for (int i = 0; i < 128; i++) id->text[i] = (char)(i * 7 + 200);  // any bytes, zeros among them, must arrive
    snprintf(id->text, 64, "/tmp/stub-nccl-%d-%ld", getpid(), (long)time(NULL));
    return 0;
}
int stub_ncclCommInitRank(void** made, int size, Identifier id, int rank) {
    for (int i = 64; i < 128; i++) if (id.text[i] != (char)(i * 7 + 200)) return fault("another identifier"), 4;
    Communicator* c = *made = calloc(1, sizeof *c);
    int file = open(id.text, O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof(Meeting))) return 2;
    c->meeting = mmap(NULL, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    c->rank = rank, c->size = size;
    close(file);
    meet(c);
    unlink(id.text);
    return 0;
}
int stub_ncclCommInitRankConfig(void** c, int size, Identifier id, int rank, void* config) { return stub_ncclCommInitRank(c, size, id, rank); }
int stub_ncclCommAbort(Communicator* c) { fprintf(stderr, "NCCL's communicator is aborted\n"); COUNT("NCCL aborted", 0); return 0; }
int stub_ncclCommGetAsyncError(Communicator* c, int* e) { const char* text = getenv("STUB_NCCL"); *e = text && !strcmp(text, "error") ? 6 : 0; return 0; }
const char* stub_ncclGetErrorString(int e) { return e == 6 ? "remote process exited or there was a network error" : "an error of the stub"; }
int stub_ncclAllReduce(const char* from, char* to, size_t count, int type, int op, Communicator* c, void* s) {
    const size_t item = type == 9 || type == 6 ? 2 : type == 8 ? 8 : 4;
    COUNT("NCCL all-reduce", count * item);
    const char* text = getenv("STUB_NCCL");
    if (text && *text) return stream_of(s)->hangs = 1, 0;
    if (!stub_hook) return 0;
    for (size_t start = 0; start < count * item; start += SLOT) {
        const size_t size = count * item - start < SLOT ? count * item - start : SLOT;
        memcpy(c->meeting->slot[c->rank], from + start, size);
        meet(c);
        TELL(SUM, (long)(to + start), (long)c->meeting->slot, SLOT, c->size, size / item, type);
        meet(c);
    }
    return 0;
}
int stub_ncclBcast(char* data, size_t count, int type, int root, Communicator* c, void* s) {
    const size_t item = type < 2 ? 1 : 4;
    COUNT("NCCL broadcast", count * item);
    if (!stub_hook) return 0;
    for (size_t start = 0; start < count * item; start += SLOT) {
        const size_t size = count * item - start < SLOT ? count * item - start : SLOT;
        if (c->rank == root) memcpy(c->meeting->slot[0], data + start, size);
        meet(c);
        memcpy(data + start, c->meeting->slot[0], size);
        meet(c);
    }
    return 0;
}
