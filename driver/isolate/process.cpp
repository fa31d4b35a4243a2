// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "driver/isolate/process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <thread>

extern char** environ;

namespace ferrite::core::isolate {
namespace {

using Clock = std::chrono::steady_clock;

Error cannot_start(const std::string& program, int reason) {
  return at(program,
            error(FE_EINTERNAL, "FE-P26", "the program that isolated plugins run in cannot be started: {}",
                  std::strerror(reason)));
}

/// Moves a descriptor above the numbers of the child's fixed descriptors, so that setting one of those does
/// not overwrite another.
FileDescriptor raised(int number) {
  const FileDescriptor low(number);
  return FileDescriptor(::fcntl(number, F_DUPFD_CLOEXEC, 16));
}

/// Shared memory that may grow but not shrink, so that a reader never finds less than was announced.
FileDescriptor shared_memory(const char* name) {
  FileDescriptor memory = raised(::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (memory.get() >= 0) ::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL);
  return memory;
}

std::string describe_status(int status) {
  if (WIFSIGNALED(status)) {
    const char* name = ::sigdescr_np(WTERMSIG(status));
    return fmt::format("it was ended by signal {} ({})", WTERMSIG(status), name ? name : "unknown");
  }
  return fmt::format("it exited with status {}", WEXITSTATUS(status));
}

struct SpawnActions {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  SpawnActions() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  ~SpawnActions() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
};

}  // namespace

bool read_shared(int descriptor, uint64_t count, Bytes& out) {
  struct stat status;
  if (::fstat(descriptor, &status) != 0 || static_cast<uint64_t>(status.st_size) < count) return false;
  out.resize(static_cast<size_t>(count));
  return read_at(descriptor, out);
}

Result<std::unique_ptr<Process>> Process::start(const std::string& program) {
  std::unique_ptr<Process> process(new Process());
  std::array<int, 2> pair = {-1, -1};
  // SOCK_SEQPACKET keeps messages apart, so that one of a wrong size is detected.
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) != 0)
    return cannot_start(program, errno);
  process->control_ = raised(pair[0]);
  const FileDescriptor theirs = raised(pair[1]);
  process->request_ = shared_memory("ferrite request");
  process->reply_ = shared_memory("ferrite reply");
  for (const int number :
       {process->control_.get(), theirs.get(), process->request_.get(), process->reply_.get()})
    if (number < 0) return cannot_start(program, errno);

  SpawnActions spawn;
  auto give = [&](int from, Descriptor to) {
    posix_spawn_file_actions_adddup2(&spawn.actions, from, static_cast<int>(to));
  };
  posix_spawn_file_actions_addopen(&spawn.actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  // The plugin's output must not mix with that of the program.
  if (::fcntl(STDERR_FILENO, F_GETFD) < 0)
    posix_spawn_file_actions_addopen(&spawn.actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_adddup2(&spawn.actions, STDERR_FILENO, STDOUT_FILENO);
  give(theirs.get(), Descriptor::control);
  give(process->request_.get(), Descriptor::request);
  give(process->reply_.get(), Descriptor::reply);
  posix_spawn_file_actions_addclosefrom_np(&spawn.actions, static_cast<int>(Descriptor::reply) + 1);
  // The child must not inherit blocked or ignored signals from a program that embeds Ferrite.
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&spawn.attributes, &none);
  posix_spawnattr_setsigdefault(&spawn.attributes, &all);
  posix_spawnattr_setpgroup(&spawn.attributes, 0);
  posix_spawnattr_setflags(&spawn.attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::string name = program;
  std::array<char*, 2> arguments = {name.data(), nullptr};
  const int failed = ::posix_spawn(&process->child_, program.c_str(), &spawn.actions, &spawn.attributes,
                                   arguments.data(), environ);
  if (failed != 0) {
    process->child_ = -1;
    return cannot_start(program, failed);
  }
  process->watched_ = FileDescriptor(static_cast<int>(::syscall(SYS_pidfd_open, process->child_, 0)));
  return process;
}

Process::~Process() { kill(); }

void Process::kill() {
  if (child_ < 0 || is_inherited()) return;
  ::kill(-child_, SIGKILL);  // including the processes that it started
  ::kill(child_, SIGKILL);   // it may have left its group
  while (::waitpid(child_, nullptr, 0) < 0 && errno == EINTR) {
  }
  child_ = -1;
}

Error Process::ended() {
  auto fault = [](std::string_view how) {
    return error(FE_EINTERNAL, "FE-P27", "the process that it runs in is gone: {}", how);
  };
  if (child_ < 0) return fault("it was ended");
  // The socket closes a moment before the process ends.
  for (int attempt = 0; attempt < 500; ++attempt) {
    siginfo_t info{};
    // WNOWAIT leaves the child a zombie, so that its group's number cannot be reused before the group is
    // killed.
    const int waited = ::waitid(P_PID, static_cast<id_t>(child_), &info, WEXITED | WNOHANG | WNOWAIT);
    if (waited == 0 && info.si_pid == child_) {
      ::kill(-child_, SIGKILL);  // processes that it started
      int status = 0;
      ::waitpid(child_, &status, 0);
      child_ = -1;
      return fault(describe_status(status));
    }
    // Programs that ignore SIGCHLD cannot learn how their children ended.
    if (waited < 0 && errno == ECHILD) {
      child_ = -1;
      return fault("it ended");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  kill();
  return fault("it closed its connection and was ended");
}

Result<Bytes> Process::call(std::span<const std::byte> request, std::chrono::milliseconds timeout,
                            const std::function<bool()>& cancelled) {
  const auto start = Clock::now();
  if (is_inherited())
    return error(FE_EINTERNAL, "FE-P27", "the process that it runs in belongs to the parent of this one");
  if (child_ < 0) return ended();
  if (!write_at(request_.get(), request)) {
    const int reason = errno;
    kill();
    return error(FE_ENOMEM, "FE-P27", "a request of {} bytes cannot be handed to its process: {}",
                 request.size(), std::strerror(reason));
  }
  ControlMessage message;
  message.sequence = ++sequence_;
  message.bytes = request.size();
  if (::send(control_.get(), &message, sizeof message, MSG_NOSIGNAL) != sizeof message) return ended();
  if (wait(start + timeout, cancelled)) return receive();
  kill();
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
  return error(FE_ECANCELLED, "FE-P28", "it did not come back within {} ms, and its process was ended",
               std::min(waited, timeout).count());
}

bool Process::wait(Clock::time_point deadline, const std::function<bool()>& cancelled) const {
  constexpr int64_t turn = 20;  // milliseconds between two calls of cancelled()
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count() + 1;
    // The process is watched too: its own children may keep the socket open.
    std::array<pollfd, 2> waiting = {{{control_.get(), POLLIN, 0}, {watched_.get(), POLLIN, 0}}};
    const int ready = ::poll(waiting.data(), waiting.size(),
                             static_cast<int>(std::clamp<int64_t>(left, 0, cancelled ? turn : INT32_MAX)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
    if (left <= 0 || (cancelled && cancelled())) return false;
  }
}

Result<Bytes> Process::receive() {
  // One byte more than a message, to detect trailing bytes.
  std::array<std::byte, sizeof(ControlMessage) + 1> buffer;
  ssize_t count = 0;
  do {
    // There may be no message: wait() also returns when the child ends.
    count = ::recv(control_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
  } while (count < 0 && errno == EINTR);
  if (count <= 0) return ended();
  ControlMessage message;
  std::memcpy(&message, buffer.data(), sizeof message);
  Bytes reply;
  if (count != sizeof message || message.magic != ControlMessage::right_magic ||
      message.sequence != sequence_ || message.bytes > max_reply ||
      !read_shared(reply_.get(), message.bytes, reply)) {
    kill();
    return error(FE_EINTERNAL, "FE-P29", "its process gave a malformed answer, and was ended");
  }
  return reply;
}

}  // namespace ferrite::core::isolate
