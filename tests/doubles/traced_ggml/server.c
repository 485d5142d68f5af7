/* llama-server: with `--version` it says one; else it makes PASSES passes of MS milliseconds a split in each of THREADS
 * threads, says so, and waits to be killed. */
#define _GNU_SOURCE
#include "ggml.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int passes, split_ms;

static void *run(void *unused) {
    tensor first = {"inp_embd", 64, NULL, ""}, last = {"result_output", 64, NULL, ""};
    graph whole = {2, {&first, &last}, split_ms * INT64_C(1000000)};
    for (int i = 0; i < passes; i++) ggml_backend_sched_graph_compute_async(NULL, &whole);
    return unused;
}

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "--version")) {
        fprintf(stderr, "version: 0.1.0-dev (build 1, commit 0123456)\nbuilt with a C compiler\n");
        return 0;
    }
    passes = atoi(argv[1]), split_ms = atoi(argv[2]);
    const int n = atoi(argv[3]);
    pthread_t threads[64];
    for (int i = 0; i < n; i++) pthread_create(&threads[i], NULL, run, NULL);
    for (int i = 0; i < n; i++) pthread_join(threads[i], NULL);
    printf("done\n");
    fflush(stdout);
    pause();
}
