#define _GNU_SOURCE
#include "ggml.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static device cpu = {"CPU", true}, cuda0 = {"CUDA0", false}, cuda1 = {"CUDA1", false};
static device remote = {"RPC[10.0.0.7:50052]", false}; /* as builds of 2025 name it */
static buffer on_cpu = {&cpu}, on_cuda0 = {&cuda0}, on_cuda1 = {&cuda1}, on_remote = {&remote};

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void sleep_until(int64_t ns) {
    const struct timespec until = {ns / 1000000000, ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {}
}

/* Occupies a device for a while, behind what it has to do already. */
static void occupy(backend *on, int64_t lasts_ns, const char *with) {
    const int64_t begin_ns = on->free_at_ns > now_ns() ? on->free_at_ns : now_ns();
    on->free_at_ns = begin_ns + lasts_ns;
    if (getenv("SAY_TRUTH")) printf("%s %s %ld %ld\n", with, on->device->name, (long)begin_ns, (long)on->free_at_ns);
}

static void work_for(int64_t ns) {
    struct timespec spent;
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    while (spent.tv_sec * INT64_C(1000000000) + spent.tv_nsec < ns);
}

int ggml_backend_graph_compute_async(backend *on, graph *split) {
    struct timespec spent;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    /* A remote device gets its work in a message, which takes the host half as long to write. */
    if (!strncmp(on->device->name, "RPC", 3))
        work_for(spent.tv_sec * INT64_C(1000000000) + spent.tv_nsec + split->lasts_ns / 2);
    occupy(on, split->lasts_ns, "compute");
    if (on->device->is_host) sleep_until(on->free_at_ns);
    return 0;
}
void ggml_backend_synchronize(backend *on) {
    if (strncmp(on->device->name, "RPC", 3)) sleep_until(on->free_at_ns);
}

/* One pass: a split on each device, a copy to CUDA1 that no function shows, and one to the remote device. */
static _Thread_local backend backends[4];

void ggml_backend_tensor_set(tensor *to, const void *data, size_t offset, size_t bytes) {
    (void)data, (void)offset, (void)bytes;
    if (!to->buffer) abort();
}
void ggml_backend_tensor_get(tensor *from, void *data, size_t offset, size_t bytes) {
    (void)offset;
    if (!from->buffer) abort();
    for (int i = 0; i < 4; i++)
        if (backends[i].device == from->buffer->device) sleep_until(backends[i].free_at_ns);
    memset(data, 0, bytes);
}
void ggml_backend_tensor_copy(tensor *from, tensor *to) {
    char data[64];
    ggml_backend_tensor_get(from, data, 0, sizeof data);
    ggml_backend_tensor_set(to, data, 0, sizeof data);
}

int ggml_backend_sched_graph_compute_async(void *sched, graph *whole) {
    (void)sched;
    tensor nodes[] = {{"inp_embd", 64, &on_cpu, ""},
                      {"norm-0", 64, &on_cuda0, ""}, {"ffn_out-1 (view)", 64, &on_cuda0, ""},
                      {"node_7", 64, &on_cuda1, ""}, {"l_out-2", 64, &on_cuda1, ""}, {"node_8", 64, &on_cuda1, ""},
                      {"norm-3", 64, &on_remote, ""}, {"empty", 0, &on_remote, ""}, {"nowhere-17b", 64, NULL, ""}};
    tensor arrived = {"RPC[10.0.0.7:50052]#l_out-2#0", 64, &on_remote, ""};
    graph splits[] = {{1, {&nodes[0]}, 0},
                      {2, {&nodes[1], &nodes[2]}, whole->lasts_ns},
                      {3, {&nodes[3], &nodes[4], &nodes[5]}, whole->lasts_ns},
                      {3, {&nodes[6], &nodes[7], &nodes[8]}, whole->lasts_ns}};
    device *devices[] = {&cpu, &cuda0, &cuda1, &remote};
    for (int i = 0; i < 4; i++) {
        backends[i].device = devices[i];
        if (i == 2) {
            if (backends[1].free_at_ns > backends[2].free_at_ns) backends[2].free_at_ns = backends[1].free_at_ns;
            occupy(&backends[2], whole->lasts_ns, "copy");
        }
        if (i == 3) ggml_backend_tensor_copy(&nodes[4], &arrived);
        ggml_backend_graph_compute_async(&backends[i], &splits[i]);
    }
    return 0;
}

device *ggml_backend_get_device(backend *of) { return of->device; }
const char *ggml_backend_dev_name(device *of) { return of->name; }
buffer *ggml_backend_buffer_get_type(buffer *of) { return of; }
device *ggml_backend_buft_get_device(buffer *of) { return of->device; }
bool ggml_backend_buffer_is_host(buffer *of) { return of->device->is_host; }
void ggml_backend_buffer_free(buffer *of) { free(of); }
int ggml_graph_n_nodes(graph *of) { return of->n_nodes; }
tensor *ggml_graph_node(graph *of, int place) { return of->nodes[place]; }
const char *ggml_get_name(tensor *of) { return of->name; }
size_t ggml_nbytes(tensor *of) { return of->bytes; }

struct init_params { size_t bytes; void *memory; bool no_alloc; };
void *ggml_init(struct init_params asked) { return calloc(1, asked.bytes); }
void ggml_free(void *context) { free(context); }
size_t ggml_tensor_overhead(void) { return 2 * sizeof(tensor); }
tensor *ggml_new_tensor_1d(void *context, int type, int64_t size) {
    (void)type, (void)size;
    return context;
}
buffer *ggml_backend_cpu_buffer_from_ptr(void *memory, size_t bytes) {
    (void)memory, (void)bytes;
    buffer *made = malloc(sizeof *made);
    made->device = &cpu;
    return made;
}
int ggml_backend_tensor_alloc(buffer *in, tensor *of, void *at) {
    (void)at;
    of->buffer = in;
    return 0;
}

/* There, and not used. */
void ggml_backend_tensor_copy_async(void) {}
void ggml_backend_tensor_set_async(void) {}
void ggml_backend_tensor_get_async(void) {}
void ggml_backend_event_new(void) {}
void ggml_backend_event_synchronize(void) {}
