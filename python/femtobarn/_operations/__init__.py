"""Operations on whole files: convert, merge, join, clone, reshape, skim; and their costs in object stores."""
