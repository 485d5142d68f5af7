/* A ggml of a few lines, for the split tracer: devices that take a scripted time, and say when they really worked. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct device { const char *name; bool is_host; } device;
typedef struct buffer { device *device; } buffer;
typedef struct tensor { char name[64]; size_t bytes; buffer *buffer; char rest[100]; } tensor; /* buffer not where ggml has it */
typedef struct graph { int n_nodes; tensor *nodes[8]; int64_t lasts_ns; } graph;
typedef struct backend { device *device; int64_t free_at_ns; } backend;

int ggml_backend_sched_graph_compute_async(void *sched, graph *whole);
