"""Operations on whole files: convert, merge, join, clone, reshape, skim."""
