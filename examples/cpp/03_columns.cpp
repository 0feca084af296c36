// Reads columns of an ntuple batch by batch: typed views of the decoded memory, without copies.
//
//   03_columns [FILE:NAME]
#include <femtobarn.hpp>

#include <cstdio>
#include <exception>

int main(int argc, char **argv) {
    try {
        const fb::NTuple events = fb::NTuple::open(argc > 1 ? argv[1] : "testdata/dimuon.root:Events");
        fb::StreamOptions options;
        options.threads = 2;
        std::size_t n_pairs = 0;
        double sum = 0;
        for (const fb::Batch &batch : events.batches({"Muon_pt"}, options)) {
            const fb::Jagged<const float> muons = batch.lists<float>("Muon_pt");
            for (std::size_t i = 0; i < batch.size(); ++i) {
                if (muons[i].size() == 2) {
                    ++n_pairs;
                    sum += static_cast<double>(muons[i][0] + muons[i][1]);
                }
            }
        }
        std::printf("%zu of %llu events have two muons; mean sum of their pt: %.3f\n", n_pairs,
                    static_cast<unsigned long long>(events.num_entries()), n_pairs ? sum / static_cast<double>(n_pairs) : 0.);
    } catch (const std::exception &error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
