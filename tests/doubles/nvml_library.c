/*
 * A double of NVIDIA's management library as a shared object: GPUs that follow the script in the file that
 * K3PROF_NVML_SCRIPT names. Written from the library's documentation; its structures are declared anew here.
 *
 * Times in the script are CLOCK_MONOTONIC ns. Each line is a word and its figures; all but `topology` are of the GPU
 * named last:
 *
 *   gpu UUID BUS        window NS         wave PERIOD ON OFFSET     span BEGIN END
 *   record unix|boot|idle|none            stray US PERCENT          lost AT       hang AT
 *   xid AT NUMBER       program PID       lacks SYMBOL              power MW      topology LEVEL
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, TIMEOUT = 10, LOST = 15 };
enum { GPU_SAMPLES = 1, MEMORY_SAMPLES = 2, WIDE = 3, NARROW = 1, XID_EVENT = 8, ENTRIES = 72, ROOM = 120 };
enum { MOST_GPUS = 16, MOST_SPANS = 20000, MOST_LISTED = 16 };

typedef struct { int64_t begin, end; } Span;
typedef struct {
    char uuid[80], record[8], lacks[MOST_LISTED][64];
    unsigned bus, power_mw, programs[MOST_LISTED];
    int64_t window, period, on, offset, lost_at, hang_at, xid_at[MOST_LISTED];
    unsigned long long xid[MOST_LISTED], stray_us[MOST_LISTED];
    unsigned stray_percent[MOST_LISTED];
    int n_lacks, n_programs, n_xids, n_strays, n_spans;
    Span *spans;
    int64_t *before; /* busy ns until each span */
} Gpu;
typedef Gpu *Device;

static Gpu gpus[MOST_GPUS];
static int n_gpus, topology = 40;

static int64_t clock_ns(clockid_t id) {
    struct timespec now;
    clock_gettime(id, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int64_t now_ns(void) { return clock_ns(CLOCK_MONOTONIC); }

/* Busy ns from time 0 to `at`. */
static int64_t busy_ns(const Gpu *gpu, int64_t at) {
    if (gpu->n_spans) {
        int low = 0, high = gpu->n_spans;
        while (low < high) {
            int middle = (low + high) / 2;
            if (gpu->spans[middle].begin <= at) low = middle + 1; else high = middle;
        }
        if (!low) return 0;
        Span last = gpu->spans[low - 1];
        return gpu->before[low - 1] + (at < last.end ? at : last.end) - last.begin;
    }
    if (!gpu->period) return 0;
    int64_t since = at - gpu->offset, cycles = since / gpu->period, rest = since % gpu->period;
    return cycles * gpu->on + (rest < gpu->on ? rest : gpu->on);
}

/* Whole percents of the window that ends with the given number of windows since time 0. */
static unsigned percent(const Gpu *gpu, int64_t number) {
    int64_t end = number * gpu->window;
    return (unsigned)(100 * (busy_ns(gpu, end) - busy_ns(gpu, end - gpu->window)) / gpu->window);
}

static void read_script(const char *path) {
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[256], word[32], text[80];
    Gpu *gpu = NULL;
    while (file && fgets(line, sizeof line, file)) {
        long long a = 0, b = 0, c = 0;
        if (sscanf(line, "%31s", word) != 1) continue;
        int figures = sscanf(line, "%*s %lld %lld %lld", &a, &b, &c);
        if (!strcmp(word, "gpu") && n_gpus < MOST_GPUS) {
            gpu = &gpus[n_gpus++];
            *gpu = (Gpu){.window = 200000000, .lost_at = INT64_MAX, .hang_at = INT64_MAX, .power_mw = 70000};
            sscanf(line, "%*s %79s %u", gpu->uuid, &gpu->bus);
            strcpy(gpu->record, "unix");
            gpu->spans = calloc(MOST_SPANS, sizeof(Span));
            gpu->before = calloc(MOST_SPANS + 1, sizeof(int64_t));
        } else if (!strcmp(word, "topology")) topology = (int)a;
        else if (!gpu) continue;
        else if (!strcmp(word, "window")) gpu->window = a;
        else if (!strcmp(word, "wave")) gpu->period = a, gpu->on = b, gpu->offset = c;
        else if (!strcmp(word, "power")) gpu->power_mw = (unsigned)a;
        else if (!strcmp(word, "lost")) gpu->lost_at = a;
        else if (!strcmp(word, "hang")) gpu->hang_at = a;
        else if (!strcmp(word, "record")) sscanf(line, "%*s %7s", gpu->record);
        else if (!strcmp(word, "span") && gpu->n_spans < MOST_SPANS) {
            gpu->before[gpu->n_spans + 1] = gpu->before[gpu->n_spans] + b - a;
            gpu->spans[gpu->n_spans++] = (Span){a, b};
        } else if (!strcmp(word, "xid") && gpu->n_xids < MOST_LISTED) {
            gpu->xid_at[gpu->n_xids] = a, gpu->xid[gpu->n_xids++] = (unsigned long long)b;
        } else if (!strcmp(word, "stray") && gpu->n_strays < MOST_LISTED) {
            gpu->stray_us[gpu->n_strays] = (unsigned long long)a, gpu->stray_percent[gpu->n_strays++] = (unsigned)b;
        } else if (!strcmp(word, "program") && gpu->n_programs < MOST_LISTED) {
            gpu->programs[gpu->n_programs++] = (unsigned)a;
        } else if (!strcmp(word, "lacks") && gpu->n_lacks < MOST_LISTED && sscanf(line, "%*s %63s", text) == 1) {
            strcpy(gpu->lacks[gpu->n_lacks++], text);
        } else fprintf(stderr, "nvml double: %s with %d figures\n", word, figures);
    }
    if (file) fclose(file);
}

/* What stands in the way of an answer, if anything. */
static int fault(const Gpu *gpu, const char *symbol) {
    if (now_ns() >= gpu->hang_at) for (;;) pause();
    if (now_ns() >= gpu->lost_at) return LOST;
    for (int place = 0; place < gpu->n_lacks; place++)
        if (!strcmp(gpu->lacks[place], symbol)) return NOT_SUPPORTED;
    return SUCCESS;
}

#define ANSWER(gpu) do { int code = fault(gpu, __func__); if (code) return code; } while (0)

static pthread_once_t once = PTHREAD_ONCE_INIT;
static void load(void) { read_script(getenv("K3PROF_NVML_SCRIPT")); }

int nvmlInitWithFlags(unsigned flags) { (void)flags; pthread_once(&once, load); return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { return code == LOST ? "GPU is lost" : "some error"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "550.54.15"); return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = (unsigned)n_gpus; return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *device) {
    if (index >= (unsigned)n_gpus) return INVALID;
    *device = &gpus[index];
    return SUCCESS;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Device *device) {
    for (int place = 0; place < n_gpus; place++)
        if (!strcmp(gpus[place].uuid, uuid)) return *device = &gpus[place], SUCCESS;
    return NOT_FOUND;
}

int nvmlDeviceGetName(Device gpu, char *text, unsigned size) {
    ANSWER(gpu);
    snprintf(text, size, "NVIDIA A40");
    return SUCCESS;
}

int nvmlDeviceGetUUID(Device gpu, char *text, unsigned size) {
    ANSWER(gpu);
    snprintf(text, size, "%s", gpu->uuid);
    return SUCCESS;
}

typedef struct { char legacy_id[16]; unsigned domain, bus, device, device_id, subsystem_id; char id[32]; } Pci;
int nvmlDeviceGetPciInfo_v3(Device gpu, Pci *pci) {
    ANSWER(gpu);
    *pci = (Pci){.bus = gpu->bus};
    snprintf(pci->id, sizeof pci->id, "00000000:%02X:00.0", gpu->bus);
    return SUCCESS;
}

typedef struct { unsigned gpu, memory; } Rates;
int nvmlDeviceGetUtilizationRates(Device gpu, Rates *rates) {
    ANSWER(gpu);
    *rates = (Rates){percent(gpu, now_ns() / gpu->window), 0};
    return SUCCESS;
}

typedef union { double d; unsigned narrow; unsigned long long wide; } Value;
typedef struct { unsigned long long time_us; Value value; } Sample;
int nvmlDeviceGetSamples(
    Device gpu, int kind, unsigned long long last_us, int *value_kind, unsigned *count, Sample *samples) {
    ANSWER(gpu);
    if (!strcmp(gpu->record, "none") || (kind != GPU_SAMPLES && kind != MEMORY_SAMPLES)) return NOT_SUPPORTED;
    if (!strcmp(gpu->record, "idle")) return NOT_FOUND;
    *value_kind = NARROW;
    if (!samples) return *count = ROOM, SUCCESS;
    clockid_t dating = !strcmp(gpu->record, "boot") ? CLOCK_BOOTTIME : CLOCK_REALTIME;
    int64_t ahead = clock_ns(dating) - now_ns(), newest = now_ns() / gpu->window;
    unsigned filled = 0;
    for (int place = 0; place < gpu->n_strays && filled < *count; place++)
        samples[filled++] = (Sample){gpu->stray_us[place], {.wide = gpu->stray_percent[place]}};
    for (int64_t number = newest - ENTRIES + 1; number <= newest && filled < *count; number++) {
        unsigned long long at_us = (unsigned long long)(number * gpu->window + ahead) / 1000;
        if (at_us > last_us)
            samples[filled++] = (Sample){at_us, {.wide = kind == GPU_SAMPLES ? percent(gpu, number) : 0}};
    }
    *count = filled;
    return filled ? SUCCESS : NOT_FOUND;
}

int nvmlDeviceGetEncoderUtilization(Device gpu, unsigned *busy, unsigned *period_us) {
    ANSWER(gpu);
    *busy = 0, *period_us = (unsigned)(gpu->window / 1000);
    return SUCCESS;
}

typedef struct { unsigned version; unsigned long long total, reserved, free, used; } Memory;
int nvmlDeviceGetMemoryInfo_v2(Device gpu, Memory *memory) {
    ANSWER(gpu);
    memory->total = 46068ULL << 20, memory->reserved = 600ULL << 20, memory->used = 5ULL << 30;
    memory->free = memory->total - memory->reserved - memory->used;
    return SUCCESS;
}

typedef struct { unsigned long long total, free, used; } OldMemory;
int nvmlDeviceGetMemoryInfo(Device gpu, OldMemory *memory) {
    ANSWER(gpu);
    *memory = (OldMemory){46068ULL << 20, 0, (5ULL << 30) + (600ULL << 20)};
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

/* Energy is what the power gives while the GPU is busy. */
static unsigned long long energy_mj(const Gpu *gpu) {
    return (unsigned long long)(busy_ns(gpu, now_ns()) / 1000000) * gpu->power_mw / 1000;
}

typedef struct { unsigned id, scope; int64_t time_us, latency_us; int kind, code; Value value; } Field;
int nvmlDeviceGetFieldValues(Device gpu, int count, Field *fields) {
    ANSWER(gpu);
    for (Field *field = fields; field < fields + count; field++) {
        field->code = SUCCESS, field->kind = WIDE, field->value.wide = 0;
        switch (field->id) {
        case 185: case 186: field->kind = NARROW, field->value.narrow = gpu->power_mw; break;
        case 74: case 251: case 252: case 253: break;
        default: field->code = NOT_SUPPORTED; /* 197 and 198 among them: PCIe is glimpsed, by the slow call */
        }
    }
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(Device gpu, unsigned *mw) { ANSWER(gpu); *mw = gpu->power_mw; return SUCCESS; }
int nvmlDeviceGetTotalEnergyConsumption(Device gpu, unsigned long long *mj) {
    ANSWER(gpu);
    *mj = energy_mj(gpu);
    return SUCCESS;
}

int nvmlDeviceGetPcieThroughput(Device gpu, int direction, unsigned *kb_per_s) {
    ANSWER(gpu);
    usleep(20000);
    *kb_per_s = direction ? 2000 : 1000;
    return SUCCESS;
}

int nvmlDeviceGetClockInfo(Device gpu, int kind, unsigned *mhz) { ANSWER(gpu); *mhz = kind == 2 ? 7251 : 1740; return 0; }
int nvmlDeviceGetPerformanceState(Device gpu, int *state) { ANSWER(gpu); *state = 0; return SUCCESS; }
int nvmlDeviceGetCurrPcieLinkGeneration(Device gpu, unsigned *found) { ANSWER(gpu); *found = 4; return SUCCESS; }
int nvmlDeviceGetCurrPcieLinkWidth(Device gpu, unsigned *found) { ANSWER(gpu); *found = 16; return SUCCESS; }

int nvmlDeviceGetTopologyCommonAncestor(Device gpu, Device peer, int *level) {
    ANSWER(gpu);
    ANSWER(peer);
    *level = topology;
    return SUCCESS;
}

int nvmlDeviceGetP2PStatus(Device gpu, Device peer, int access, int *status) {
    ANSWER(gpu);
    ANSWER(peer);
    *status = access < 2 ? 0 : 5;
    return SUCCESS;
}

typedef struct { unsigned pid; unsigned long long bytes; unsigned gpu_instance, compute_instance; } Program;
int nvmlDeviceGetComputeRunningProcesses_v3(Device gpu, unsigned *count, Program *programs) {
    ANSWER(gpu);
    unsigned room = *count;
    *count = (unsigned)gpu->n_programs;
    if (!programs || room < *count) return *count ? INSUFFICIENT_SIZE : SUCCESS;
    for (unsigned place = 0; place < *count; place++) programs[place] = (Program){gpu->programs[place], 1 << 30, 0, 0};
    return SUCCESS;
}

static int watched[MOST_GPUS], told[MOST_GPUS];

int nvmlEventSetCreate(void **events) { *events = watched; return SUCCESS; }
int nvmlDeviceGetSupportedEventTypes(Device gpu, unsigned long long *kinds) { ANSWER(gpu); *kinds = 0x1f; return 0; }
int nvmlDeviceRegisterEvents(Device gpu, unsigned long long kinds, void *events) {
    (void)events;
    ANSWER(gpu);
    watched[gpu - gpus] = (kinds & XID_EVENT) != 0;
    return SUCCESS;
}

typedef struct { Device gpu; unsigned long long kind, data; unsigned gpu_instance, compute_instance; } Event;
int nvmlEventSetWait_v2(void *events, Event *event, unsigned patience_ms) {
    (void)events;
    for (int64_t until = now_ns() + patience_ms * INT64_C(1000000);; usleep(5000)) {
        for (int place = 0; place < n_gpus; place++) {
            Gpu *gpu = &gpus[place];
            if (watched[place] && told[place] < gpu->n_xids && gpu->xid_at[told[place]] <= now_ns()) {
                *event = (Event){.gpu = gpu, .kind = XID_EVENT, .data = gpu->xid[told[place]++]};
                return SUCCESS;
            }
        }
        if (now_ns() >= until) return TIMEOUT;
    }
}
