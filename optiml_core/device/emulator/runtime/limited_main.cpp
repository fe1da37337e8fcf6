// limited_main.cpp - runs one compiler command on hostile text: limits, few files, no orphans.
//
//   limited FOLDER CPU_SECONDS MEMORY FILE_SIZE PARENT_PID READABLE_FILE... -- COMMAND...
//
// The command may write in FOLDER only and read only that, the files named and the system's programs and libraries
// (Landlock, where the kernel has it). It must be started as the leader of a session of its own: when the parent ends,
// the whole group is killed. Exits as the command did; 125: it could not be started so.
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <initializer_list>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

constexpr uint64_t READ = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t RUN = READ | LANDLOCK_ACCESS_FS_EXECUTE;
// The rights of Landlock's first version: everything a path can be used for.
constexpr uint64_t ALL = (LANDLOCK_ACCESS_FS_MAKE_SYM << 1) - 1;
constexpr uint64_t OF_A_FILE = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE;

void permit(int ruleset, const char* path, uint64_t rights) {
  int descriptor = open(path, O_PATH | O_CLOEXEC);
  if (descriptor < 0) return;  // what is not there needs no permission
  struct stat status = {};
  if (fstat(descriptor, &status) == 0 && !S_ISDIR(status.st_mode)) rights &= OF_A_FILE;
  landlock_path_beneath_attr rule = {rights, descriptor};
  syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  close(descriptor);
}

// True if the process is confined, or if this kernel knows no Landlock.
bool confine(const char* folder, char** readable, int count) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return false;
  landlock_ruleset_attr attributes = {};
  attributes.handled_access_fs = ALL;
  int ruleset = (int)syscall(SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0);
  if (ruleset < 0) return errno == ENOSYS || errno == EOPNOTSUPP;
  for (const char* path : {"/usr", "/bin", "/lib", "/lib64", "/opt"}) permit(ruleset, path, RUN);
  for (const char* path : {"/etc/ld.so.cache", "/etc/alternatives", "/proc/self", "/dev/urandom"}) permit(ruleset, path, READ);
  permit(ruleset, "/dev/null", READ | LANDLOCK_ACCESS_FS_WRITE_FILE);
  for (int i = 0; i < count; i++) permit(ruleset, readable[i], RUN);
  permit(ruleset, folder, ALL);
  bool done = syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
  close(ruleset);
  return done;
}

bool limit(int what, const char* value) {
  rlim_t number = strtoull(value, nullptr, 10);
  struct rlimit both = {number, number};
  return setrlimit((__rlimit_resource_t)what, &both) == 0;
}

void kill_group(int) {
  kill(0, SIGKILL);
  _exit(125);
}

}  // namespace

int main(int count, char** values) {
  int separator = 6;
  while (separator < count && strcmp(values[separator], "--")) separator++;
  if (separator + 1 >= count || getsid(0) != getpid()) return 125;
  signal(SIGTERM, kill_group);
  prctl(PR_SET_PDEATHSIG, SIGTERM, 0, 0, 0);
  if (getppid() != atol(values[5])) return 125;
  bool ready = limit(RLIMIT_CPU, values[2]) && limit(RLIMIT_AS, values[3]) && limit(RLIMIT_FSIZE, values[4]) &&
               limit(RLIMIT_CORE, "0") && confine(values[1], values + 6, separator - 6);
  if (!ready) return 125;
  pid_t child = fork();
  if (child == 0) {
    signal(SIGTERM, SIG_DFL);
    execv(values[separator + 1], values + separator + 1);
    _exit(125);
  }
  int status = 125 << 8;
  if (child > 0)
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  if (WIFSIGNALED(status)) {
    signal(WTERMSIG(status), SIG_DFL);
    kill(getpid(), WTERMSIG(status));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 125;
}
