#include "nn/distributed/job_store.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <stop_token>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "base/log.h"
#include "base/remote/signature.h"
#include "base/save_progress.h"
#include "base/text.h"

namespace composer {
namespace {

constexpr const char* loopback = "127.0.0.1";

constexpr const char *run_folder_key = "composer/run_folder", *saved_key = "composer/saved";

constexpr auto between_reports = std::chrono::milliseconds(400);

/// Timeout of calls to a running host.
constexpr double answer_seconds = 30;

c10d::TCPStoreOptions store_options(uint16_t port, bool host, double timeout_seconds) {
  c10d::TCPStoreOptions options;
  options.port = port;
  options.isServer = host;
  options.waitWorkers = false;
  options.timeout = std::chrono::milliseconds(static_cast<int64_t>(timeout_seconds * 1000));
  return options;
}

/// A listening socket for the store that only processes of this machine can reach. Sockets that the
/// store makes itself listen on all addresses.
int listen_on_loopback(uint16_t port) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int reuse = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (listener >= 0 &&
      ::setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof reuse) == 0 &&
      ::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      ::listen(listener, SOMAXCONN) == 0)
    return listener;
  const int error = errno;
  if (listener >= 0) ::close(listener);
  throw std::system_error(error, std::generic_category());
}

[[noreturn]] void refuse(const std::string& key, const std::string& expected) {
  throw ForeignValue("the store where the ranks meet has something other than " + expected +
                     " as " + key +
                     ", which no process of this job has set: another program uses its port");
}

/// c10d's messages have several lines, with the call stack.
std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

template <class Error, class Call>
auto or_error(const std::string& what, const Call& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    throw Error(what + ": " + first_line(error.what()));
  }
}

template <class Call>
auto asked(const Call& call) {
  return or_error<RunError>("the store where the ranks meet does not answer", call);
}

/// The store writes to sockets whose other end may be closed: with a handler for SIGPIPE the call
/// fails and the process goes on. A handler, since children inherit ignored signals.
void take_broken_pipes() {
  struct sigaction action {};
  if (::sigaction(SIGPIPE, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGPIPE, &action, nullptr);
}

}  // namespace

struct JobStore::Tcp {
  c10::intrusive_ptr<c10d::TCPStore> store;
  const std::string secret;
  c10::intrusive_ptr<c10d::Store> for_groups;

  Tcp(const std::string& address, const std::string& secret, const c10d::TCPStoreOptions& options)
      : store(c10::make_intrusive<c10d::TCPStore>(address, options)),
        secret(secret),
        for_groups(c10::make_intrusive<c10d::PrefixStore>(name_of("ranks"), store)) {
    take_broken_pipes();
  }

  /// The store's name of a key. c10d tells any client the names in a store; keys cannot be derived
  /// from these names.
  std::string name_of(const std::string& key) const {
    const auto text = secret + "/" + key;
    return payload_hash({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  }
};

JobStore::JobStore(std::shared_ptr<Tcp> tcp) : tcp_(std::move(tcp)) {}

c10d::Store& JobStore::store() const { return *tcp_->for_groups; }

JobStore JobStore::host(const MeetingPoint& point, double timeout_seconds) {
  const auto host = [&] {
    auto options = store_options(point.port, true, timeout_seconds);
    if (point.one_machine) options.masterListenFd = listen_on_loopback(point.port);
    return JobStore(std::make_shared<Tcp>(loopback, point.secret, options));
  };
  return or_error<UserError>("port " + std::to_string(point.port) +
                                 " cannot be listened on; give another --master_port"
                                 " (MASTER_PORT), or end the program that uses this one",
                             host);
}

JobStore JobStore::connect(const MeetingPoint& point, double timeout_seconds) {
  const auto connect = [&] {
    return JobStore(std::make_shared<Tcp>(point.address, point.secret,
                                          store_options(point.port, false, timeout_seconds)));
  };
  return or_error<LostRankError>("nobody answers at " + point.address + ":" +
                                     std::to_string(point.port) + ", where the ranks are to meet",
                                 connect);
}

JobStore JobStore::of(const RankEnvironment& environment, double timeout_seconds) {
  MeetingPoint point{environment.address, environment.port, environment.secret,
                     environment.local_size == environment.size};
  if (environment.store_is_hosted) return connect(point, timeout_seconds);
  if (point.one_machine) point.address = loopback;
  return environment.rank == 0 ? host(point, timeout_seconds) : connect(point, timeout_seconds);
}

uint16_t JobStore::port() const { return tcp_->store->getPort(); }

void JobStore::set(const std::string& key, const std::string& value) {
  asked([&] {
    const auto name = tcp_->name_of(key);
    tcp_->store->set(name, std::vector<uint8_t>(value.begin(), value.end()));
    // c10d's set() does not wait for the host: the answer to the next call does
    return tcp_->store->check({name});
  });
}

std::optional<std::string> JobStore::get(const std::string& key) {
  return asked([&]() -> std::optional<std::string> {
    const auto name = tcp_->name_of(key);
    if (!tcp_->store->check({name})) return {};
    const auto bytes = tcp_->store->get(name);
    return std::string(bytes.begin(), bytes.end());
  });
}

std::optional<int64_t> JobStore::get_number(const std::string& key, int64_t least, int64_t most) {
  const auto text = get(key);
  if (!text) return {};
  const auto value = to_number<int64_t>(*text);
  if (!value || *value < least || *value > most)
    refuse(key, "a whole number from " + std::to_string(least) + " to " + std::to_string(most));
  return value;
}

int64_t JobStore::add(const std::string& key, int64_t value) {
  return asked([&] { return tcp_->store->add(tcp_->name_of(key), value); });
}

void tell_run_folder(const RankEnvironment& environment, const std::filesystem::path& folder) {
  if (!environment.store_is_hosted) return;
  const auto path = std::filesystem::absolute(folder);
  JobStore::of(environment, answer_seconds).set(run_folder_key, path.string());
  if (environment.by_launcher)
    log::also_in(path / "logs" / ("rank" + std::to_string(environment.rank) + ".log"));
}

void tell_saved(JobStore& store, int64_t bytes) { store.add(saved_key, bytes); }

int64_t told_saved(JobStore& store) {
  return store.get_number(saved_key, 0, INT64_MAX).value_or(0);
}

SaveReports::SaveReports(const RankEnvironment& environment) {
  if (environment.rank != 0 || !environment.by_launcher || !environment.store_is_hosted) return;
  thread_ = std::jthread([environment,
                          told = saved_bytes.load()](const std::stop_token& stop) mutable {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any ended;
    try {
      std::optional<JobStore> store;
      while (!ended.wait_for(lock, stop, between_reports, [&] { return stop.stop_requested(); })) {
        const int64_t now = saved_bytes;
        if (now == told) continue;
        if (!store) store = JobStore::of(environment, answer_seconds);
        tell_saved(*store, now - std::exchange(told, now));
      }
    } catch (const std::exception&) {  // the launcher is gone, and it ends this process too
    }
  });
}

std::optional<std::filesystem::path> told_run_folder(JobStore& store) {
  const auto text = store.get(run_folder_key);
  if (!text) return {};
  if (!text->starts_with('/') || text->find('\0') != text->npos || text->size() >= PATH_MAX)
    refuse(run_folder_key, "an absolute path");
  return std::filesystem::path(*text);
}

std::optional<std::filesystem::path> told_run_folder(const RankEnvironment& environment) {
  if (!environment.store_is_hosted) return {};
  auto store = JobStore::of(environment, answer_seconds);
  return told_run_folder(store);
}

}  // namespace composer
