// Locks a run folder for one process, and brings it the requests of other processes.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace composer {

/// The process that holds a run folder.
struct RunOwner {
  pid_t pid = 0;
  std::string host;
  std::string since;  ///< local time on its host: "2026-11-22 09:30:00"

  /// "process 4711 on box since 2026-11-22 09:30:00".
  std::string text() const;
};

/// Whether the owner is a process of this machine that has been killed or is exiting. Such a
/// process keeps its locks until its memory is freed and its writes are done, which may take
/// seconds.
bool is_ending(const RunOwner& owner);

/// A request of another process to a run.
struct Request {
  std::string id;  ///< unique
  std::string name;
  std::map<std::string, std::string> arguments;
  bool awaited = false;  ///< true: its sender waits for the answer
};

struct Answer {
  bool done = false;
  std::string text;  ///< the result, or the reason of a failure
};

/// The owner's side: a lock on the file .lock in a run folder, and requests in the folder
/// .requests, one file each. Files work between machines too. The lock ends with this object or its
/// process.
class Mailbox {
 public:
  /// Makes the folder if it is missing; its parent must exist. UserError when another process holds
  /// the lock (the message names it, its host and the time), or when the folder cannot be made or
  /// written in. Waits up to a minute for an owner for which is_ending() is true. A warning where
  /// the file system has no locks. Requests to an earlier owner are removed.
  explicit Mailbox(std::filesystem::path folder);
  /// Removes the lock file, requests, and an empty run folder, unless another run has the folder
  /// now.
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  /// Frees the 64 KiB that the lock file reserves for last writes to a full disk.
  void free_room() const;

  /// Whether this object made the folder.
  bool made_folder() const { return made_folder_; }

  /// The requests since the last call, in order, each once. A file that is no request is removed
  /// with a warning, and answered as a failure.
  std::vector<Request> take();
  /// Answers the request if its sender waits.
  void answer(const Request& request, const Answer& answer) const;

 private:
  bool take_lock();
  std::optional<Request> take(const std::filesystem::path& file) const;

  std::filesystem::path folder_, path_, requests_;
  bool made_folder_ = false;
  size_t text_size_ = 0;  ///< the size of the owner's text in the lock file
  int file_ = -1;
};

/// The owner of the run folder; nothing without one; an owner without number and time while a
/// process is taking the folder. On a file system without locks: the last owner noted, unless that
/// was a process of this machine which has ended. UserError when the lock file cannot be read.
std::optional<RunOwner> owner_of(const std::filesystem::path& folder);

/// Sends a request to the owner of a run folder. UserError when the folder has no owner or cannot
/// be written in. wait_seconds: how long to wait for the answer; 0: do not wait, and return
/// nothing. RunError when no answer comes in that time; a request that the owner has not taken is
/// withdrawn.
std::optional<Answer> send_request(const std::filesystem::path& folder, const std::string& name,
                                   const std::map<std::string, std::string>& arguments,
                                   double wait_seconds);

}  // namespace composer
