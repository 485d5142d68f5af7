/* Notes what llama.cpp's scheduler does inside an unmodified llama-server: preload it, and name a ring to write to.
 *
 * The scheduler hands each split of a graph to one backend, and copies and waits between them, through exported
 * functions of libggml-base. A preloaded library stands before these: it notes the time around each call and passes the
 * call on. It never fails a call and never waits for the reader: without room in the ring a record is counted as lost.
 * The ring is a mapped file, so what was noted outlives the server, however that ends.
 *
 * No struct of ggml is known here. Everything is asked of ggml's own functions, except in which buffer a tensor lies:
 * there is no function for that, so its place in the struct is found by trying (`find_buffer_offset`).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* What follows, up to `struct ring`, is described a second time in split_ring.py. */
enum { MAX_DEVICES = 64, NAME_BYTES = 64 };
enum mode { OFF, LIGHT, EXACT };
enum kind { PASS, COMPUTE, COPY, WAIT };

struct record {
    _Atomic uint64_t sequence; /* the record's number plus one, stored last: the rest is there */
    int64_t begin_ns, end_ns;  /* CLOCK_MONOTONIC */
    int64_t submitting_ns;     /* what the scheduler's thread itself had to do for a split */
    int64_t bytes;             /* -1 where not known */
    int32_t nodes;
    int32_t first_layer, last_layer; /* -1 for none */
    int16_t device, source;          /* places in the ring's table of devices, -1 where not known */
    uint8_t kind;
    uint8_t finished; /* whether the work was done by end_ns, rather than only asked for */
    char first[NAME_BYTES], last[NAME_BYTES];
};

struct ring {
    uint64_t capacity, record_bytes;
    _Atomic uint32_t mode;   /* the reader decides, at any time */
    _Atomic uint32_t writer; /* process id */
    _Atomic uint32_t n_devices;
    char missing[NAME_BYTES];          /* the function that this ggml lacks: nothing is noted then */
    _Alignas(64) _Atomic uint64_t head; /* records begun */
    _Alignas(64) _Atomic uint64_t tail; /* records read; only the reader moves it */
    _Alignas(64) _Atomic uint64_t lost;
    _Alignas(64) char devices[MAX_DEVICES][NAME_BYTES];
    _Alignas(64) struct record records[];
};

typedef struct ggml_opaque *handle; /* any of ggml's pointers */
struct init_params { size_t bytes; void *memory; bool no_alloc; };

/* ggml's functions: first those that are watched, then those that are asked. */
#define GGML_FUNCTIONS(X) \
    X(int, ggml_backend_sched_graph_compute_async, (handle, handle)) \
    X(int, ggml_backend_graph_compute_async, (handle, handle)) \
    X(void, ggml_backend_tensor_copy, (handle, handle)) \
    X(void, ggml_backend_tensor_copy_async, (handle, handle, handle, handle)) \
    X(void, ggml_backend_tensor_set, (handle, const void *, size_t, size_t)) \
    X(void, ggml_backend_tensor_get, (handle, void *, size_t, size_t)) \
    X(void, ggml_backend_tensor_set_async, (handle, handle, const void *, size_t, size_t)) \
    X(void, ggml_backend_tensor_get_async, (handle, handle, void *, size_t, size_t)) \
    X(void, ggml_backend_synchronize, (handle)) \
    X(handle, ggml_backend_event_new, (handle)) X(void, ggml_backend_event_synchronize, (handle)) \
    X(handle, ggml_backend_get_device, (handle)) X(const char *, ggml_backend_dev_name, (handle)) \
    X(handle, ggml_backend_buffer_get_type, (handle)) X(handle, ggml_backend_buft_get_device, (handle)) \
    X(bool, ggml_backend_buffer_is_host, (handle)) X(void, ggml_backend_buffer_free, (handle)) \
    X(int, ggml_graph_n_nodes, (handle)) X(handle, ggml_graph_node, (handle, int)) \
    X(const char *, ggml_get_name, (handle)) X(size_t, ggml_nbytes, (handle)) \
    X(handle, ggml_init, (struct init_params)) X(void, ggml_free, (handle)) \
    X(size_t, ggml_tensor_overhead, (void)) X(handle, ggml_new_tensor_1d, (handle, int, int64_t)) \
    X(handle, ggml_backend_cpu_buffer_from_ptr, (void *, size_t)) \
    X(int, ggml_backend_tensor_alloc, (handle, handle, void *))
#define DECLARE(result, name, arguments) result(*name) arguments;
static struct { GGML_FUNCTIONS(DECLARE) } real;

static struct ring *ring;
static ptrdiff_t buffer_offset = -1;
/* A call that makes further ones, as a copy that falls back on waits and reads, is noted as one. */
static _Thread_local int depth;

static enum mode mode(void) {
    return ring ? (enum mode)atomic_load_explicit(&ring->mode, memory_order_relaxed) : OFF;
}

static int64_t read_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void set_name(char *to, const char *name) { strncpy(to, name, NAME_BYTES - 1); }

/* Returns a device's place in the ring's table, adding it if it is new; -1 for none. */
static int16_t device_named(const char *name) {
    static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER;
    if (!name) return -1;
    pthread_mutex_lock(&table);
    uint32_t place = 0;
    while (place < ring->n_devices && strncmp(ring->devices[place], name, NAME_BYTES - 1)) place++;
    if (place == ring->n_devices && place < MAX_DEVICES) {
        set_name(ring->devices[place], name);
        ring->n_devices++;
    }
    pthread_mutex_unlock(&table);
    return place < MAX_DEVICES ? (int16_t)place : -1;
}

static int16_t device_at(handle device) { return device_named(device ? real.ggml_backend_dev_name(device) : NULL); }
static int16_t device_of_backend(handle backend) { return device_at(real.ggml_backend_get_device(backend)); }

static void find_buffer_offset(void) {
    _Alignas(128) static char room[256];
    const size_t overhead = real.ggml_tensor_overhead();
    handle context = real.ggml_init((struct init_params){overhead, NULL, true});
    handle tensor = real.ggml_new_tensor_1d(context, 0 /* f32 */, 1);
    handle buffer = real.ggml_backend_cpu_buffer_from_ptr(room, sizeof room);
    real.ggml_backend_tensor_alloc(buffer, tensor, room);
    for (size_t at = 0; buffer_offset < 0 && at < overhead / 2; at += sizeof buffer)
        if (!memcmp((char *)tensor + at, &buffer, sizeof buffer)) buffer_offset = (ptrdiff_t)at;
    real.ggml_backend_buffer_free(buffer);
    real.ggml_free(context);
}

/* Returns where a tensor's data lies; -1 when it lies nowhere. */
static int16_t device_of_tensor(handle tensor) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_buffer_offset);
    handle buffer = NULL;
    if (buffer_offset >= 0) memcpy(&buffer, (char *)tensor + buffer_offset, sizeof buffer);
    if (!buffer) return -1;
    if (real.ggml_backend_buffer_is_host(buffer)) return device_named("CPU");
    return device_at(real.ggml_backend_buft_get_device(real.ggml_backend_buffer_get_type(buffer)));
}

/* Returns the layer in a name as llama.cpp gives them, `ffn_out-12` or `Kcur-3 (view)`; -1 for none. */
static int32_t layer_of(const char *name) {
    for (const char *dash = name; (dash = strchr(dash, '-')); dash++) {
        char *end;
        const long layer = strtol(dash + 1, &end, 10);
        if (dash[1] >= '0' && dash[1] <= '9' && (!*end || *end == ' ' || *end == '#')) return (int32_t)layer;
    }
    return -1;
}

static const char *name_of(handle graph, int node) { return real.ggml_get_name(real.ggml_graph_node(graph, node)); }

static struct record record_of(enum kind kind, int16_t device, int16_t source) {
    return (struct record){.kind = (uint8_t)kind, .device = device, .source = source,
                           .bytes = -1, .first_layer = -1, .last_layer = -1};
}

static struct record copy_of(handle tensor, size_t bytes, int16_t device, int16_t source, bool finished) {
    struct record seen = record_of(COPY, device, source);
    seen.bytes = (int64_t)bytes, seen.finished = finished;
    set_name(seen.first, real.ggml_get_name(tensor));
    seen.first_layer = seen.last_layer = layer_of(seen.first);
    return seen;
}

static struct record run_of(enum kind kind, handle graph, int16_t device) {
    struct record seen = record_of(kind, device, -1);
    const int nodes = seen.nodes = real.ggml_graph_n_nodes(graph);
    if (nodes <= 0) return seen;
    set_name(seen.first, name_of(graph, 0));
    set_name(seen.last, name_of(graph, nodes - 1));
    /* Nodes come layer by layer and most are named after theirs, so that these searches end soon. */
    for (int at = 0; at < nodes && seen.first_layer < 0; at++) seen.first_layer = layer_of(name_of(graph, at));
    for (int at = nodes - 1; at >= 0 && seen.last_layer < 0; at--) seen.last_layer = layer_of(name_of(graph, at));
    return seen;
}

static void begin(struct record *seen) {
    depth++;
    seen->begin_ns = read_ns(CLOCK_MONOTONIC);
}

static void end(struct record *seen) {
    seen->end_ns = read_ns(CLOCK_MONOTONIC);
    depth--;
    /* Most waits find nothing to wait for; noting them all would drown the others. */
    if (seen->kind != PASS && !seen->nodes && seen->bytes < 0 && seen->end_ns - seen->begin_ns < 1000) return;
    uint64_t number = ring->head;
    do {
        if (number - ring->tail >= ring->capacity) {
            ring->lost++;
            return;
        }
    } while (!atomic_compare_exchange_weak(&ring->head, &number, number + 1));
    struct record *slot = &ring->records[number % ring->capacity];
    memcpy(&slot->begin_ns, &seen->begin_ns, sizeof *seen - offsetof(struct record, begin_ns));
    atomic_store_explicit(&slot->sequence, number + 1, memory_order_release);
}

static bool is_rpc(int16_t device) { return device >= 0 && !strncmp(ring->devices[device], "RPC", 3); }

/* Waits until a backend has computed a graph. Returns whether that is certain. */
static bool finish(handle backend, handle graph, int16_t device) {
    real.ggml_backend_synchronize(backend);
    if (!is_rpc(device)) return true;
    /* RPC's synchronize returns when all is sent. The remote side works in order, so that any answer proves that it is
     * through: ask for a few bytes of the last node that lies there. Some lie nowhere. */
    for (int at = real.ggml_graph_n_nodes(graph) - 1; at >= 0; at--) {
        handle node = real.ggml_graph_node(graph, at);
        char answer[4];
        const size_t bytes = real.ggml_nbytes(node);
        if (!bytes || device_of_tensor(node) != device) continue;
        real.ggml_backend_tensor_get(node, answer, 0, bytes < sizeof answer ? bytes : sizeof answer);
        return true;
    }
    return false;
}

int ggml_backend_sched_graph_compute_async(handle sched, handle graph) {
    const enum mode now = mode();
    if (now == OFF) return real.ggml_backend_sched_graph_compute_async(sched, graph);
    struct record seen = run_of(PASS, graph, -1);
    seen.finished = now == EXACT;
    begin(&seen);
    depth--; /* what happens inside is what there is to see */
    const int status = real.ggml_backend_sched_graph_compute_async(sched, graph);
    depth++;
    end(&seen);
    return status;
}

int ggml_backend_graph_compute_async(handle backend, handle graph) {
    const enum mode now = mode();
    if (now == OFF) return real.ggml_backend_graph_compute_async(backend, graph);
    const int16_t device = device_of_backend(backend);
    struct record seen = run_of(COMPUTE, graph, device);
    if (now == EXACT && !is_rpc(device)) {
        /* Copies that one GPU sends another pass no exported function; nothing else can still be under way now. */
        struct record inputs = record_of(COPY, device, -1);
        inputs.finished = true;
        begin(&inputs);
        real.ggml_backend_synchronize(backend);
        end(&inputs);
    }
    begin(&seen);
    const int64_t worked_ns = read_ns(CLOCK_THREAD_CPUTIME_ID);
    const int status = real.ggml_backend_graph_compute_async(backend, graph);
    /* Not the time until the return: a stand-in on the same processor may begin, and even end, before that. */
    seen.submitting_ns = read_ns(CLOCK_THREAD_CPUTIME_ID) - worked_ns;
    seen.finished = now == EXACT && finish(backend, graph, device);
    end(&seen);
    return status;
}

/* A function that is watched: its head, the call that it passes on, and the record of it. */
#define WATCH(head, call, ...) \
    void head { \
        if (mode() == OFF || depth > 0) { real.call; return; } \
        struct record seen = __VA_ARGS__; \
        begin(&seen); \
        real.call; \
        end(&seen); \
    }
#define HOST device_named("CPU")

WATCH(ggml_backend_tensor_copy(handle from, handle to), ggml_backend_tensor_copy(from, to),
      copy_of(from, real.ggml_nbytes(from), device_of_tensor(to), device_of_tensor(from), true))
WATCH(ggml_backend_tensor_copy_async(handle source, handle target, handle from, handle to),
      ggml_backend_tensor_copy_async(source, target, from, to),
      copy_of(from, real.ggml_nbytes(from), device_of_backend(target), device_of_backend(source), false))
WATCH(ggml_backend_tensor_set(handle tensor, const void *data, size_t offset, size_t bytes),
      ggml_backend_tensor_set(tensor, data, offset, bytes),
      copy_of(tensor, bytes, device_of_tensor(tensor), HOST, true))
WATCH(ggml_backend_tensor_get(handle tensor, void *data, size_t offset, size_t bytes),
      ggml_backend_tensor_get(tensor, data, offset, bytes),
      copy_of(tensor, bytes, HOST, device_of_tensor(tensor), true))
WATCH(ggml_backend_tensor_set_async(handle backend, handle tensor, const void *data, size_t offset, size_t bytes),
      ggml_backend_tensor_set_async(backend, tensor, data, offset, bytes),
      copy_of(tensor, bytes, device_of_backend(backend), HOST, false))
WATCH(ggml_backend_tensor_get_async(handle backend, handle tensor, void *data, size_t offset, size_t bytes),
      ggml_backend_tensor_get_async(backend, tensor, data, offset, bytes),
      copy_of(tensor, bytes, HOST, device_of_backend(backend), false))
WATCH(ggml_backend_synchronize(handle backend), ggml_backend_synchronize(backend),
      record_of(WAIT, device_of_backend(backend), -1))

/* Whose each event is, which nothing tells later. A scheduler makes four for each of at most 16 backends. */
static struct { handle event; int16_t device; } events[256];
static _Atomic int n_events;

static int place_of(handle event) {
    int place = 0;
    while (place < n_events && events[place].event != event) place++;
    return place;
}

handle ggml_backend_event_new(handle device) {
    handle event = real.ggml_backend_event_new(device);
    const int place = place_of(event);
    if (!ring || !event || place == 256) return event;
    events[place].event = event, events[place].device = device_at(device);
    if (place == n_events) n_events++;
    return event;
}
WATCH(ggml_backend_event_synchronize(handle event), ggml_backend_event_synchronize(event),
      record_of(WAIT, place_of(event) < n_events ? events[place_of(event)].device : -1, -1))

__attribute__((constructor)) static void attach(void) {
    const char *missing = NULL, *path = getenv("K3PROF_SPLITS");
#define FIND(result, name, arguments) \
    if (!(*(void **)&real.name = dlsym(RTLD_NEXT, #name)) && !missing) missing = #name;
    GGML_FUNCTIONS(FIND)
    /* Programs that inherit the environment and are not llama.cpp's have no such function. */
    const int file = path && real.ggml_backend_graph_compute_async ? open(path, O_RDWR | O_CLOEXEC) : -1;
    struct stat status;
    if (file < 0 || fstat(file, &status)) return;
    const int flags = MAP_SHARED | MAP_POPULATE; /* no call is to pay for the first touch of a page */
    struct ring *found = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, flags, file, 0);
    close(file);
    if (found == MAP_FAILED || found->record_bytes != sizeof(struct record)) return;
    if (missing) set_name(found->missing, missing);
    else ring = found;
    found->writer = (uint32_t)getpid();
}
