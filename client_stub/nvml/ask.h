/* Asks Warpline about its devices, through a separate process. C. */
#ifndef WARPLINE_CLIENT_STUB_NVML_ASK_H_
#define WARPLINE_CLIENT_STUB_NVML_ASK_H_

/* Runs `warpline devices` of this installation and returns its output, which the caller frees with
 * free(). Returns NULL, after one line on stderr for each new reason, when there is no answer
 * within ten seconds. Opens no CUDA session and starts no thread. Thread-safe. */
char* WarplineAskForDevices(void);

#endif /* WARPLINE_CLIENT_STUB_NVML_ASK_H_ */
