#include "base/files/mailbox.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/files/atomic_file.h"
#include "base/host_name.h"
#include "base/log.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr off_t room = 64 << 10;
constexpr size_t largest_request = 64 << 10;
constexpr std::string_view request_ending = ".request", answer_ending = ".answer";

std::string text_of(int file) {
  char text[512];
  const ssize_t size = ::pread(file, text, sizeof text, 0);
  return {text, static_cast<size_t>(size > 0 ? size : 0)};
}

/// The inverse of RunOwner::text(); for any other text an owner without a number.
RunOwner owner_in(const std::string& text) {
  constexpr std::string_view process = "process ", on = " on ", since = " since ";
  const size_t host = text.find(on), time = text.rfind(since);
  RunOwner owner;
  if (!text.starts_with(process) || host == std::string::npos || time == std::string::npos ||
      time < host + on.size())
    return owner;
  std::from_chars(text.data() + process.size(), text.data() + host, owner.pid);
  owner.host = text.substr(host + on.size(), time - host - on.size());
  owner.since = text.substr(time + since.size());
  return owner;
}

/// Whether the open file is still the one at `path`: each holder removes it at its end.
bool is_still_there(int file, const fs::path& path) {
  struct stat held {
  }, named{};
  return ::fstat(file, &held) == 0 && ::stat(path.c_str(), &named) == 0 &&
         held.st_ino == named.st_ino && held.st_dev == named.st_dev;
}

/// Locks the file. owner_of() holds a shared lock for an instant, which is waited for, as is an
/// owner that has been killed. False, with errno set, when another owner keeps the lock.
bool lock(int file) {
  constexpr double most_shared = 5, most_ending = 60;
  const double start = steady_seconds();
  for (bool told = false; ::flock(file, LOCK_EX | LOCK_NB) != 0;) {
    if (errno != EWOULDBLOCK) return false;
    const bool shared = ::flock(file, LOCK_SH | LOCK_NB) == 0;
    if (shared) ::flock(file, LOCK_UN);
    const auto owner = owner_in(text_of(file));
    const double waited = steady_seconds() - start;
    if (waited > (shared ? most_shared : most_ending) || (!shared && !is_ending(owner)))
      return ::flock(file, LOCK_EX | LOCK_NB) == 0;  // it may just have ended
    if (!shared && waited > 1 && !std::exchange(told, true))
      log::info("waiting until " + owner.text() + " ends, which has been killed");
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return true;
}

/// The files in the folder with this ending, sorted by name, which is by time. Opening the folder
/// makes a network file system look again.
std::vector<fs::path> files_in(const fs::path& folder, std::string_view ending) {
  std::vector<fs::path> files;
  std::error_code problem;
  for (fs::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem))
    if (entry->path().filename().string().ends_with(ending)) files.push_back(entry->path());
  std::ranges::sort(files);
  return files;
}

/// The content of a small regular file; empty for any other.
std::string content(const fs::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  std::string text(largest_request + 1, '\0');
  const ssize_t size = file < 0 ? -1 : ::read(file, text.data(), text.size());
  if (file >= 0) ::close(file);
  text.resize(size > 0 && static_cast<size_t>(size) <= largest_request ? size : 0);
  return text;
}

/// Bytes that are no UTF-8, such as some of a path, are replaced.
std::string as_text(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<Answer> read_answer(const fs::path& path) {
  const auto text = content(path);
  if (text.empty()) return std::nullopt;
  ::unlink(path.c_str());
  try {
    const auto json = nlohmann::json::parse(text);
    return Answer{json.at("done").get<bool>(), json.at("text").get<std::string>()};
  } catch (const nlohmann::json::exception&) {
    return Answer{false, "the answer cannot be read"};
  }
}

/// Nanoseconds since 1970 first, so that names sort by time.
std::string new_id() {
  timespec now;
  ::clock_gettime(CLOCK_REALTIME, &now);
  char time[32];
  std::snprintf(time, sizeof time, "%012lld%09ld", static_cast<long long>(now.tv_sec), now.tv_nsec);
  return time + ("-" + host_name()) + "-" + std::to_string(::getpid());
}

/// Whether the name has the form of new_id(), so that a sender may wait for an answer.
bool is_id(const std::string& name) {
  return name.find_first_not_of("0123456789") == 21 && name[21] == '-';
}

std::string not_running(const fs::path& folder) {
  return folder.string() + ": no run is going on there, so nobody would take a request";
}

}  // namespace

std::string RunOwner::text() const {
  return "process " + std::to_string(pid) + " on " + host + " since " + since;
}

bool is_ending(const RunOwner& owner) {
  if (owner.pid <= 0 || owner.host != host_name()) return false;
  const auto folder = "/proc/" + std::to_string(owner.pid);
  std::string stat, line;
  std::getline(std::ifstream(folder + "/stat"), stat);
  constexpr unsigned exiting = 4;  // the kernel's PF_EXITING
  std::istringstream fields(stat.substr(std::min(stat.rfind(')') + 1, stat.size())));
  std::string field;
  unsigned flags = 0;
  for (int i = 0; i < 6; ++i) fields >> field;  // from the state to the terminal's group
  if (fields >> flags && (flags & exiting) != 0) return true;
  constexpr std::string_view pending = "SigPnd:\t", shared = "ShdPnd:\t";
  for (std::ifstream status(folder + "/status"); std::getline(status, line);) {
    if (!line.starts_with(pending) && !line.starts_with(shared)) continue;
    uint64_t signals = 0;
    std::from_chars(line.data() + pending.size(), line.data() + line.size(), signals, 16);
    if ((signals >> (SIGKILL - 1) & 1) != 0) return true;
  }
  return false;
}

Mailbox::Mailbox(fs::path folder)
    : folder_(std::move(folder)), path_(folder_ / ".lock"), requests_(folder_ / ".requests") {
  while (!take_lock()) {
  }
  // Nobody sends requests before the owner is noted, so all requests here are to earlier owners.
  const bool emptied = ::ftruncate(file_, 0) == 0;
  std::error_code ignored;
  fs::remove_all(requests_, ignored);
  // Made now: network file systems remember for a while that a name is missing.
  fs::create_directory(requests_, ignored);
  const auto text = RunOwner{::getpid(), host_name(), local_time_text()}.text();
  text_size_ = text.size();
  if (!emptied || ::pwrite(file_, text.data(), text.size(), 0) != static_cast<ssize_t>(text.size()))
    log::warn(path_.string() + ": the owner could not be noted: " + std::strerror(errno));
  // Reserves blocks behind the file's end, where the file system can.
  std::ignore = ::fallocate(file_, FALLOC_FL_KEEP_SIZE, 0, room);
}

/// False when an earlier holder removed the folder or the file meanwhile.
bool Mailbox::take_lock() {
  std::error_code problem;
  made_folder_ |= fs::create_directory(folder_, problem);
  if (problem)
    throw UserError("run_dir: " + folder_.string() + " cannot be made: " + problem.message());
  file_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file_ < 0 && errno == ENOENT) return false;
  if (file_ < 0)
    throw UserError("run_dir: " + path_.string() + " cannot be written: " + std::strerror(errno));
  if (!lock(file_)) {
    const int error = errno;
    const auto holder = text_of(file_);
    if (error == EWOULDBLOCK) {
      ::close(std::exchange(file_, -1));
      throw UserError("run_name: the run folder " + folder_.string() + " is in use by " +
                      (holder.empty() ? "another process" : holder) +
                      "; wait for it, or give another --run_name");
    }
    log::warn(path_.string() + ": " + std::strerror(error) +
              ": this file system has no locks; take care that one process at a time uses the run "
              "folder");
  }
  if (is_still_there(file_, path_)) return true;
  ::close(std::exchange(file_, -1));
  return false;
}

void Mailbox::free_room() const {
  std::ignore = ::ftruncate(file_, static_cast<off_t>(text_size_));
}

std::vector<Request> Mailbox::take() {
  std::vector<Request> all;
  for (const auto& file : files_in(requests_, request_ending))
    if (auto request = take(file)) all.push_back(std::move(*request));
  return all;
}

/// Nothing for a request that was withdrawn, or a file that is no request.
std::optional<Request> Mailbox::take(const fs::path& file) const {
  Request request;
  request.id = file.stem().string();
  const auto json = nlohmann::json::parse(content(file), nullptr, false);
  if (::unlink(file.c_str()) != 0) return std::nullopt;
  try {
    json.at("request").get_to(request.name);
    json.at("arguments").get_to(request.arguments);
    json.at("awaited").get_to(request.awaited);
    return request;
  } catch (const nlohmann::json::exception&) {
    log::warn(file.string() + ": is no request");
    request.awaited = is_id(request.id);
    answer(request, {false, "it cannot be read as a request"});
    return std::nullopt;
  }
}

void Mailbox::answer(const Request& request, const Answer& answer) const {
  if (!request.awaited) return;
  const nlohmann::json json{{"done", answer.done}, {"text", answer.text}};
  try {
    AtomicFile file(requests_ / (request.id + std::string(answer_ending)));
    file.write(as_text(json));
    file.commit();
  } catch (const RunError& error) {
    log::warn(std::string("the request ") + request.name + " was not answered: " + error.what());
  }
}

Mailbox::~Mailbox() {
  // Somebody removed the folder and began another run there.
  if (!is_still_there(file_, path_)) {
    ::close(file_);
    return;
  }
  std::error_code ignored;
  for (const auto& file : files_in(requests_, request_ending)) fs::remove(file, ignored);
  // The lock file first: a sender that has read its answer and still finds this file did so before
  // the folder is removed here; a sender that does not find it removes the folder.
  ::unlink(path_.c_str());
  ::rmdir(requests_.c_str());
  ::rmdir(folder_.c_str());
  ::close(file_);
}

std::optional<RunOwner> owner_of(const fs::path& folder) {
  const auto path = folder / ".lock";
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0 && (errno == ENOENT || errno == ENOTDIR)) return std::nullopt;
  if (file < 0) throw UserError(path.string() + ": cannot be read: " + std::strerror(errno));
  const bool locked = ::flock(file, LOCK_SH | LOCK_NB) == 0;
  const bool no_locks = !locked && errno != EWOULDBLOCK;
  const auto owner = owner_in(text_of(file));
  ::close(file);
  const bool dead = owner.host == host_name() && ::kill(owner.pid, 0) != 0 && errno == ESRCH;
  if (locked || (no_locks && dead)) return std::nullopt;
  return owner;
}

std::optional<Answer> send_request(const fs::path& folder, const std::string& name,
                                   const std::map<std::string, std::string>& arguments,
                                   double wait_seconds) {
  std::error_code unreadable;
  const auto kind = fs::status(folder, unreadable).type();
  if (kind == fs::file_type::none)
    throw UserError(folder.string() + ": cannot be read: " + unreadable.message());
  if (kind != fs::file_type::directory) throw UserError(folder.string() + ": is no run folder");
  const auto owner = owner_of(folder);
  if (!owner || owner->since.empty())
    throw UserError(not_running(folder));  // or the owner is not noted yet
  const auto requests = folder / ".requests", id = requests / new_id();
  const auto named = [&](std::string_view ending) {
    return fs::path(id.string() + std::string(ending));
  };
  const auto request = named(request_ending);
  for (bool again = false;; again = true) try {
      std::error_code problem;
      fs::create_directory(requests, problem);
      AtomicFile file(request);
      file.write(
          as_text({{"request", name}, {"arguments", arguments}, {"awaited", wait_seconds > 0}}));
      file.commit();
      break;
    } catch (const RunError& error) {
      if (again)
        throw UserError(error.what());  // at first, an ending owner may have removed the folder
    }
  const auto take_back = [&] {
    const bool untaken = ::unlink(request.c_str()) == 0;
    ::rmdir(requests.c_str());
    return untaken;
  };
  if (wait_seconds <= 0) {
    if (!owner_of(folder) && take_back()) throw UserError(not_running(folder));
    return std::nullopt;
  }

  const double end = steady_seconds() + wait_seconds;
  for (bool over = false;; std::this_thread::sleep_for(std::chrono::milliseconds(100))) {
    const bool gone = !owner_of(folder);
    std::ignore = files_in(requests, answer_ending);  // for network file systems
    if (auto answer = read_answer(named(answer_ending))) {
      if (!owner_of(folder)) ::rmdir(requests.c_str());
      return answer;
    }
    if (gone) {
      take_back();
      throw RunError(folder.string() + ": the run ended before it answered");
    }
    if (over) throw RunError(folder.string() + ": no answer yet; the run has taken the request");
    over = steady_seconds() >= end;
    if (over && ::unlink(request.c_str()) == 0)
      throw RunError(folder.string() + ": the run has not taken the request; it is taken back");
  }
}

}  // namespace composer
