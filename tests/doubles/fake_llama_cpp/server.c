#include <stdio.h>
#include <string.h>

int ggml_answer(void);

int main(int argc, char ** argv) {
    if (argc > 1 && strcmp(argv[1], "--help") == 0) {
        printf("-t,    --threads N                      number of threads (answer: %d)\n", ggml_answer());
        return 0;
    }
    fprintf(stderr, "version: 0.1.%d-dev (build 1, commit %s)\n", ggml_answer(), COMMIT);
    fprintf(stderr, "built with GNU %s for Linux\n", __VERSION__);
    return 0;
}
