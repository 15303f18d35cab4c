// A snapshot as one screen of text.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <numeric>
#include <vector>

#include "gpukit/scheduler/inspect/snapshot.h"

namespace gpukit::scheduler {

namespace {

constexpr size_t kMaxCell = 28;

std::string bytes_text(double bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  for (; unit < 4 && bytes >= 1024; ++unit) bytes /= 1024;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", bytes, kUnits[unit]);
  return text;
}

std::string fixed(double value, int digits) {
  char text[48];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

/// At most `size` bytes of UTF-8 text, whole characters only.
void cut(std::string& text, size_t size) {
  if (text.size() <= size) return;
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) --size;
  text.resize(size);
}

/// A member as a number; `missing` when it is not there or null.
double at(const Json& item, const char* name, double missing = 0) {
  const Json* value = item.find(name);
  return value != nullptr && value->is_number() ? value->as_number() : missing;
}

std::string text_at(const Json& item, const char* name, const char* missing = "-") {
  const Json* value = item.find(name);
  if (value == nullptr || value->is_null()) return missing;
  return value->is_string() ? value->as_string() : value->dump();
}

std::string bytes_at(const Json& item, const char* name) {
  const double value = at(item, name, -1);
  return value < 0 ? "-" : bytes_text(value);
}

std::string count_at(const Json& item, const char* name) { return fixed(at(item, name), 0); }

class Screen {
 public:
  Screen(int width, bool colour) : width_(static_cast<size_t>(std::max(width, 40))), colour_(colour) {}

  void title(const std::string& text) { line(text, "1"); }
  void plain(const std::string& text) { line(text, nullptr); }
  /// The first row is the head; the first column is flush left. `spare`: heads of columns that a narrow screen goes
  /// without, those first.
  void table(std::vector<std::vector<std::string>> rows, std::initializer_list<const char*> spare = {}) {
    if (rows.size() < 2) return;
    std::vector<size_t> widths(rows.front().size(), 0);
    for (auto& row : rows) {
      for (size_t i = 0; i < row.size(); ++i) {
        for (char& c : row[i])
          if (static_cast<unsigned char>(c) < ' ') c = '?';
        if (row[i].size() > kMaxCell) {
          cut(row[i], kMaxCell - 3);
          row[i] += "...";
        }
        widths[i] = std::max(widths[i], row[i].size());
      }
    }
    for (const char* name : spare) {
      if (std::accumulate(widths.begin(), widths.end(), 2 * widths.size()) <= width_) break;
      const auto& head = rows.front();
      const auto at = std::find(head.begin(), head.end(), name) - head.begin();
      for (auto& row : rows) row.erase(row.begin() + at);
      widths.erase(widths.begin() + at);
    }
    for (size_t r = 0; r < rows.size(); ++r) {
      std::string text = "  ";
      for (size_t i = 0; i < rows[r].size(); ++i) {
        const std::string gap(widths[i] - rows[r][i].size(), ' ');
        text += i == 0 ? rows[r][i] + gap : "  " + gap + rows[r][i];
      }
      line(text, r == 0 ? "36" : nullptr);
    }
  }
  std::string take() { return std::move(out_); }

 private:
  void line(std::string text, const char* code) {
    cut(text, width_);
    text.erase(text.find_last_not_of(' ') + 1);
    out_ += code != nullptr && colour_ ? "\x1b[" + std::string(code) + "m" + text + "\x1b[0m\n" : text + "\n";
  }
  const size_t width_;
  const bool colour_;
  std::string out_;
};

/// The item of `previous` in the list `list` whose members `names` are those of `item`; null when there is none.
const Json* before(const Json* previous, const char* list, const Json& item, std::vector<const char*> names) {
  const Json* items = previous != nullptr ? previous->find(list) : nullptr;
  if (items == nullptr || !items->is_list()) return nullptr;
  for (const Json& other : items->items()) {
    const bool same = std::all_of(names.begin(), names.end(), [&](const char* name) {
      const Json *a = item.find(name), *b = other.find(name);
      return a != nullptr && b != nullptr && *a == *b;
    });
    if (same) return &other;
  }
  return nullptr;
}

struct Rates {
  const Json* previous;
  double seconds;

  std::string of(const Json& item, const char* list, std::vector<const char*> names, const char* member) const {
    const Json* earlier = before(previous, list, item, std::move(names));
    if (earlier == nullptr || seconds <= 0) return "-";
    return fixed(std::max((at(item, member) - at(*earlier, member)) / seconds, 0.0), 0);
  }
};

std::string bar(double used, double limit) {
  constexpr int kCells = 10;
  if (limit <= 0) return "";
  const int full = std::clamp(static_cast<int>(std::lround(kCells * used / limit)), 0, kCells);
  return "[" + std::string(static_cast<size_t>(full), '#') + std::string(static_cast<size_t>(kCells - full), '.') + "]";
}

double submitted(const Json& snapshot, const std::string& device) {
  double sum = 0;
  for (const Json& stream : snapshot.at("streams").items())
    if (text_at(stream, "device") == device) sum += at(stream, "submitted");
  return sum;
}

void show_devices(Screen& screen, const Json& s, const Rates& rates) {
  std::vector<std::vector<std::string>> rows{
      {"device", "name", "in use", "cached", "evicted", "free", "launches", "/s", "streams", "at gate"}};
  for (const Json& device : s.at("devices").items()) {
    const std::string name = text_at(device, "device");
    const Json* pool = before(&s, "pools", device, {"device"});
    const Json* gate = before(&s, "dispatch", device, {"device"});
    int streams = 0;
    for (const Json& stream : s.at("streams").items()) streams += text_at(stream, "device") == name ? 1 : 0;
    const double now = submitted(s, name);
    const bool known = rates.previous != nullptr && rates.seconds > 0;
    const double earlier = known ? submitted(*rates.previous, name) : 0;
    rows.push_back({name, text_at(device, "name"), pool ? bytes_at(*pool, "live_bytes") : "-",
                    pool ? bytes_at(*pool, "cached_bytes") : "-", pool ? bytes_at(*pool, "evicted_bytes") : "-",
                    bytes_at(device, "free_bytes"), fixed(now, 0),
                    known ? fixed(std::max(now - earlier, 0.0) / rates.seconds, 0) : "-", std::to_string(streams),
                    gate ? count_at(*gate, "waiting") : "-"});
  }
  screen.title("Devices");
  if (rows.size() == 1) screen.plain("  none in use yet");
  screen.table(std::move(rows), {"name", "evicted", "cached"});
}

void show_contexts(Screen& screen, const Json& s, const Rates& rates) {
  std::vector<std::vector<std::string>> rows{
      {"context", "class", "state", "memory", "quota", "", "launches", "/s", "futures", "SMs", "tokens", "/s"}};
  for (const Json& c : s.at("contexts").items()) {
    const Json* obtained = c.find("obtained");
    rows.push_back({text_at(c, "id"), text_at(c, "qos"), text_at(c, "state"), bytes_at(c, "used_bytes"),
                    bytes_at(c, "quota_bytes"), bar(at(c, "used_bytes"), at(c, "quota_bytes")), count_at(c, "launches"),
                    rates.of(c, "contexts", {"controller", "id"}, "launches"), count_at(c, "pending_futures"),
                    obtained != nullptr && obtained->is_object() ? count_at(*obtained, "multiprocessors") : "-",
                    count_at(c, "tokens"), rates.of(c, "contexts", {"controller", "id"}, "tokens")});
  }
  if (rows.size() == 1) return;
  screen.title("Contexts");
  screen.table(std::move(rows), {"", "class", "futures"});
}

void show_partitions(Screen& screen, const Json& s) {
  std::vector<std::vector<std::string>> rows{
      {"partition", "share", "SMs", "memory", "quota", "", "kernels", "compute s", "enforced"}};
  for (const Json& p : s.at("partitions").items()) {
    const Json& asked = p.at("asked");
    const Json* got = p.find("obtained");
    const bool known = got != nullptr && got->is_object();
    rows.push_back({text_at(p, "id"), fixed(at(asked, "compute"), 2), known ? count_at(*got, "multiprocessors") : "-",
                    known ? bytes_at(*got, "memory_bytes") : "-", bytes_at(asked, "memory_bytes"),
                    known ? bar(at(*got, "memory_bytes"), at(asked, "memory_bytes")) : "",
                    known ? count_at(*got, "kernels") : "-", known ? fixed(at(*got, "compute_s"), 2) : "-",
                    known && text_at(*got, "enforced") == "true" ? "yes" : "no"});
  }
  if (rows.size() == 1) return;
  screen.title("Partitions");
  screen.table(std::move(rows), {"", "compute s"});
}

void show_accounts(Screen& screen, const Json& s) {
  std::vector<std::vector<std::string>> rows{{"account", "device", "live", "cached", "evicted", "peak", "quota", ""}};
  std::vector<const Json*> accounts;
  for (const Json& account : s.at("accounts").items())
    if (at(account, "charged_bytes") > 0 || at(account, "evicted_bytes") > 0) accounts.push_back(&account);
  std::stable_sort(accounts.begin(), accounts.end(),
                   [](const Json* a, const Json* b) { return at(*a, "charged_bytes") > at(*b, "charged_bytes"); });
  if (accounts.size() > 10) accounts.resize(10);
  for (const Json* a : accounts) {
    rows.push_back({text_at(*a, "name"), text_at(*a, "device"), bytes_at(*a, "live_bytes"),
                    bytes_at(*a, "cached_bytes"), bytes_at(*a, "evicted_bytes"), bytes_at(*a, "peak_charged_bytes"),
                    bytes_at(*a, "quota_bytes"), bar(at(*a, "charged_bytes"), at(*a, "quota_bytes"))});
  }
  if (rows.size() == 1) return;
  screen.title("Memory");
  screen.table(std::move(rows), {"", "evicted"});
}

void show_queues(Screen& screen, const Json& s, const Rates& rates) {
  std::vector<std::vector<std::string>> rows{
      {"queue", "waiting", "running", "done", "/s", "failed", "cancelled", "memory"}};
  for (const Json& q : s.at("schedulers").items()) {
    rows.push_back({"scheduler " + text_at(q, "number"), count_at(q, "pending"), count_at(q, "running"),
                    count_at(q, "completed"), rates.of(q, "schedulers", {"number"}, "completed"), count_at(q, "failed"),
                    count_at(q, "cancelled"), bytes_at(q, "reserved_bytes")});
  }
  for (const Json& t : s.at("transfers").items()) {
    rows.push_back({"transfers " + text_at(t, "device"), count_at(t, "pending"), count_at(t, "in_progress"),
                    count_at(t, "completed"), rates.of(t, "transfers", {"device"}, "completed"), count_at(t, "failed"),
                    count_at(t, "cancelled"), bytes_at(t.at("ring"), "bytes")});
  }
  if (rows.size() == 1) return;
  screen.title("Queues");
  screen.table(std::move(rows), {"cancelled"});
}

void show_kernels(Screen& screen, const Json& s) {
  std::vector<std::vector<std::string>> rows{{"recorded work", "device", "count", "total us", "min us", "max us"}};
  for (const Json& device : s.at("dispatch").items()) {
    for (const Json& k : device.at("kernels").items()) {
      if (rows.size() > 8) break;
      rows.push_back({text_at(k, "name"), text_at(device, "device"), count_at(k, "count"), fixed(at(k, "total_us"), 1),
                      fixed(at(k, "min_us"), 1), fixed(at(k, "max_us"), 1)});
    }
  }
  if (rows.size() == 1) return;
  screen.title("Kernels and copies");
  screen.table(std::move(rows));
}

}  // namespace

std::string top_text(const Json& snapshot, const Json* previous, int width, bool colour) {
  Screen screen(width, colour);
  // Another process, or the same snapshot again, gives no rates.
  if (previous != nullptr && at(*previous, "process_id") != at(snapshot, "process_id")) previous = nullptr;
  const Rates rates{previous, previous != nullptr ? at(snapshot, "time_s") - at(*previous, "time_s") : 0};
  screen.title("PyGPUkit " + text_at(snapshot, "version") + "  process " + text_at(snapshot, "process_id"));
  show_devices(screen, snapshot, rates);
  show_contexts(screen, snapshot, rates);
  show_partitions(screen, snapshot);
  show_accounts(screen, snapshot);
  show_queues(screen, snapshot, rates);
  show_kernels(screen, snapshot);
  return screen.take();
}

}  // namespace gpukit::scheduler
