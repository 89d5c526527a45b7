/* Stands for a library whose functions the server executes, but for the weak one. */
int cublasSgemm_v2(void);
int cublasSgemm_v2(void) { return 0; }

__attribute__((weak)) int cublasXtSgemm(void);
__attribute__((weak)) int cublasXtSgemm(void) { return 15; }
