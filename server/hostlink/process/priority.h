// Who goes first when the processors are busy.
#ifndef WARPLINE_SERVER_HOSTLINK_PROCESS_PRIORITY_H_
#define WARPLINE_SERVER_HOSTLINK_PROCESS_PRIORITY_H_

namespace warpline {

// Lets this process, which has one thread yet, go before others: a server stands between all
// clients and their workers, so that each of an honest session's commands would have to wait for
// every worker that a hostile one keeps busy. Control groups do the same where there are some
// (server/jail/cgroups.h). False, with nothing changed, where the system does not allow it (it
// takes CAP_SYS_NICE) or somebody has chosen another priority before. Children that ChildProcess
// starts have the usual one.
bool GoFirst();

// Gives a process that has the priority of GoFirst() the usual one. Async-signal-safe.
void GoAsUsual();

}  // namespace warpline

#endif  // WARPLINE_SERVER_HOSTLINK_PROCESS_PRIORITY_H_
