// sandbox.h - the operating system's fence around a candidate. See sandbox.cpp.
#pragma once

// Drops privileges for good and lets through only what mapping a file needs: opening for reading, mapping,
// and writes to `reply_fd`. 0, or -1 with errno.
int optiml_fence_for_loading(int reply_fd);
// Lets through only: read from `request_fd`, write to `reply_fd`, memory without the right to execute,
// and exit. For good. 0, or -1 with errno.
int optiml_fence_for_running(int request_fd, int reply_fd);
