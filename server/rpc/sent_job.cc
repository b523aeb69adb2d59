#include "server/rpc/sent_job.h"

#include <utility>

namespace attnd {
namespace {

struct CountedJob {
  // Declared first: the bytes are off the ledger only when the job has given back its memory.
  ByteLedger::Lease lease;
  std::unique_ptr<AttentionJob> job;
};

}  // namespace

std::shared_ptr<const AttentionJob> ShareForSending(std::unique_ptr<AttentionJob> job,
                                                    ByteLedger* ledger) {
  auto counted = std::make_shared<CountedJob>();
  counted->lease =
      *ledger->TryTake(job->plan().output_bytes);  // the ledger of what is sent has no limit
  counted->job = std::move(job);
  return {counted, counted->job.get()};
}

}  // namespace attnd
