/* Asks Warpline what there is, by a process of its own. C. */
#ifndef WARPLINE_CLIENT_STUB_NVML_ASK_H_
#define WARPLINE_CLIENT_STUB_NVML_ASK_H_

/* Runs `warpline devices` of this installation and returns what it printed, for free(); NULL, after
 * one line on stderr for each new reason, when there is no answer within ten seconds. Opens no CUDA
 * session and starts no thread. Thread-safe. */
char* WarplineAskForDevices(void);

#endif /* WARPLINE_CLIENT_STUB_NVML_ASK_H_ */
