// Keeps a run folder to one process, and takes to it what other processes ask of the run.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace composer {

/// Who has a run folder.
struct RunOwner {
  pid_t pid = 0;
  std::string host;
  std::string since;  ///< local time there: "2026-11-22 09:30:00"

  /// "process 4711 on box since 2026-11-22 09:30:00".
  std::string text() const;
};

/// Whether it is a process of this machine that has been killed or exits. Until it has given back
/// its memory and the disk has taken what it was writing, which may be seconds, it has its locks.
bool is_ending(const RunOwner& owner);

/// What another process asks of a run.
struct Request {
  std::string id;  ///< of this one request
  std::string name;
  std::map<std::string, std::string> arguments;
  bool awaited = false;  ///< its sender waits for the answer
};

struct Answer {
  bool done = false;
  std::string text;  ///< what was done, or why not
};

/// The owner's side: a lock on the file .lock in a run folder, and the requests in its folder
/// .requests, one file each. Both are files only, so that they work between machines too. The lock
/// ends with this object, and with its process however that ends.
class Mailbox {
 public:
  /// Makes the folder if need be; its parent must be there. UserError when another process has the
  /// lock, naming it, its host and since when, or when the folder cannot be made or written in. One
  /// of this machine that has been killed, and ends, is waited for, a minute at most. Where the
  /// file system has no locks, a warning. Requests to an earlier owner are cleared away.
  explicit Mailbox(std::filesystem::path folder);
  /// Removes the file, what nobody waits for and an empty folder, unless another run has it now.
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  /// Frees the 64 KiB of the disk that the lock's file keeps for what must be written on a full
  /// one.
  void free_room() const;

  /// Whether the folder was not there before.
  bool made_folder() const { return made_folder_; }

  /// What has been asked since the last call, in that order; nobody gets a request twice. A file
  /// that is no request is taken away with a warning, and answered so.
  std::vector<Request> take();
  /// For its sender, if they wait.
  void answer(const Request& request, const Answer& answer) const;

 private:
  bool take_lock();
  std::optional<Request> take(const std::filesystem::path& file) const;

  std::filesystem::path folder_, path_, requests_;
  bool made_folder_ = false;
  size_t text_size_ = 0;  ///< of what the file says
  int file_ = -1;
};

/// Who has the run folder; nothing when nobody does, an owner without a number or time while one is
/// taking it. On a file system without locks, who noted themselves last, unless that was a process
/// of this machine which is no more. UserError when that cannot be learnt.
std::optional<RunOwner> owner_of(const std::filesystem::path& folder);

/// Asks the owner of a run folder. UserError when nobody has it, or it cannot be written in.
/// wait_seconds: for the answer; 0 for none. RunError when there is none in that time: a request
/// that was not taken by then is taken back. Returns nothing when not waiting.
std::optional<Answer> send_request(const std::filesystem::path& folder, const std::string& name,
                                   const std::map<std::string, std::string>& arguments,
                                   double wait_seconds);

}  // namespace composer
