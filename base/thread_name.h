// base/thread_name.h
//
// Names for threads, as /proc/PID/task/TID/comm, top and debuggers show them.

#ifndef SLUICE_BASE_THREAD_NAME_H_
#define SLUICE_BASE_THREAD_NAME_H_

#include <pthread.h>

namespace sluice {

// Names the calling thread. Requires: at most 15 characters; longer ones change nothing.
inline void NameThread(const char* name) { (void)pthread_setname_np(pthread_self(), name); }

}  // namespace sluice

#endif  // SLUICE_BASE_THREAD_NAME_H_
