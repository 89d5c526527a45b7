/* Uses functions of such a library. */
int cublasSgemm_v2(void);
int cublasXtSgemm(void);
int use_cublas(void);
int use_cublas(void) { return cublasSgemm_v2() + cublasXtSgemm(); }
