int ggml_answer(void);

int main(void) { return ggml_answer() == 42 ? 0 : 1; }
