/* One lane of the journal: who may append, who may answer, who may delete.
 *
 *   bundles      0 . . 1 . . 2 . . 3        created by put-if-absent, never overwritten
 *   checkpoints          1 . . . . 3        beside the bundles: the fold of 0..seq, immutable
 *   head         floor, and the checkpoint that the floor stands on; changed by compare-and-swap
 *   manifests    one per partition: sealed_end and log_start; changed by compare-and-swap
 *
 * The danger is a key that was deleted. Put-if-absent fences a key only while the key is there: a
 * process that slept through the deletion can create it again, and everybody who looks there is
 * deceived by a bundle that was never part of the log. We call such a bundle a ghost. All the
 * reading of head below is there so that nobody acts upon a ghost.
 *
 * One request to the store is one atomic step. Between any two steps a process may sleep while all
 * the others run, or for ever; so death needs no step of its own. A bundle carries one batch.
 *
 * What the checker compares with is kept in variables that start with `true_`: a bundle is
 * part of the log if its key was not below the floor at the instant in which it was created.
 *
 * tests/model/check.py puts definitions before this text: who takes part (START, LATE, TOKENS ...)
 * and at most one mistake, a mutant. The mistakes are listed in its table, and explained in
 * docs/explanation/append-protocol.md.
 */

#ifndef KEYS
#define KEYS 3 /* bundle keys: at least as many as there are different batches */
#endif
#ifndef START
#define START run Writer(0, A, C, NONE); run Writer(1, B, NONE, NONE); run Sealer()
#endif
#ifndef ROUNDS
#define ROUNDS 1 /* how often a sealer tries to trim */
#endif

/* What is appended. A and B have a producer's sequence, so a fold recognises them; PLAIN has none.
 * Partition 1 is the only one of its topic, and DROP is the row that deletes that topic. */
#define NONE 0
#define A 1     /* partition 0, one record */
#define B 2     /* partition 0, two records: a ghost of it moves offsets */
#define C 3     /* partition 1, one record */
#define D 4     /* partition 1, two records */
#define PLAIN 5 /* partition 0, one record, no producer id */
#define DROP 6  /* partition 1, no record */
/* What a process does with a fold, instead of appending. */
#define CHECKPOINT 7 /* write the checkpoint of all that was learned */
#define ERASE 8      /* DeleteRecords: move log_start of partition 0 to the end */

#define PARTITION(batch) ((batch) == C || (batch) == D || (batch) == DROP)
#define LENGTH(batch) ((batch) == DROP -> 0 : ((batch) == B || (batch) == D -> 2 : 1))
#define RECOGNISED(batch) ((batch) != PLAIN)
#define BIT(batch) (1 << ((batch) - 1))
#define OFFSETS 6
#define PROCESSES 6

/* Never true. They stand in the assertions, so that the checker prints which law was broken. */
bool J1_keys_are_created_once_and_in_order;
bool J2_a_bundle_continues_the_log;
bool J2_a_batch_is_stored_once;
bool J2_a_deleted_topic_gets_no_batch;
bool J3_an_answer_is_what_is_stored;
bool J4_what_is_sealed_is_what_was_stored;
bool J4_below_the_floor_all_is_sealed;
bool J5_log_start_is_not_beyond_the_end;
bool J6_what_is_told_to_be_absent_is_absent;
bool J8_the_floor_stands_on_a_checkpoint;
bool J9_a_reader_sees_the_log;

/* The store. */
byte bundle[KEYS];      /* the batch, or NONE if there is no such object */
byte bundle_nonce[KEYS];
byte bundle_base[KEYS];
bool checkpoint[KEYS];  /* is there one, and what it holds: */
byte checkpoint_end0[KEYS];
byte checkpoint_end1[KEYS];
byte checkpoint_seen[KEYS];
byte floor;
byte floor_stands_on;   /* checkpoint + 1; 0 is the beginning of the lane, which needs none */
byte sealed_end[2];
byte log_start[2];

#ifdef TOKENS
byte token[PROCESSES];  /* floor + 1 of a head read that is younger than G/4; 0 if there is none */
#endif
#ifdef LATE
bool late;              /* one PUT whose sender got no answer, still on its way */
byte late_key, late_batch, late_nonce, late_base;
#endif

/* The truth. */
byte true_next;
byte true_batch[KEYS];
byte true_end[2];
byte true_place[9];     /* of a batch: its base offset + 1; 0 if it is not in the log */
byte true_record[2 * OFFSETS];
byte i;                 /* for loops within one step; 0 between steps */

inline create_bundle(KEY, BATCH, NONCE, BASE) {
    bundle[KEY] = BATCH; bundle_nonce[KEY] = NONCE; bundle_base[KEY] = BASE;
    if
    :: KEY >= floor ->
        assert(J1_keys_are_created_once_and_in_order || KEY == true_next);
        assert(J2_a_deleted_topic_gets_no_batch || !PARTITION(BATCH) || true_place[DROP] == 0);
        assert(J2_a_bundle_continues_the_log || BASE == true_end[PARTITION(BATCH)]);
        assert(J2_a_batch_is_stored_once || true_place[BATCH] == 0);
        for (i : 0 .. LENGTH(BATCH)) {
            if
            :: i < LENGTH(BATCH) -> true_record[PARTITION(BATCH) * OFFSETS + BASE + i] = BATCH
            :: else
            fi
        }
        i = 0;
        true_end[PARTITION(BATCH)] = BASE + LENGTH(BATCH);
        true_place[BATCH] = BASE + 1;
        true_batch[true_next] = BATCH;
        true_next++
    :: else /* a ghost */
    fi
}

inline delete_below(KEY) { /* one key; the caller goes through them one by one */
    bundle[KEY] = NONE; bundle_nonce[KEY] = 0; bundle_base[KEY] = 0;
    checkpoint[KEY] = false; checkpoint_seen[KEY] = 0;
    checkpoint_end0[KEY] = 0; checkpoint_end1[KEY] = 0;
    assert(J8_the_floor_stands_on_a_checkpoint ||
           floor_stands_on == 0 || checkpoint[floor_stands_on - 1])
}

/* The head-check rule: what was learned from a key counts once a head read begun later shows floor <= key.
 * With TOKENS, a head read that showed it less than G/4 ago does as well. */
inline read_head_again(KEY) {
    if
#ifdef TOKENS
#ifdef MUTANT_TOKEN_NOT_COMPARED
    :: token[me] != 0 -> stale = false
#else
    :: token[me] != 0 && token[me] - 1 <= KEY -> stale = false
#endif
#endif
    :: true -> stale = (floor > KEY); remember_head()
    fi
}

inline remember_head() {
#ifdef TOKENS
    token[me] = floor + 1
#else
    skip
#endif
}

inline fold_offsets(BATCH, BASE) {
    if
    :: PARTITION(BATCH) -> end1 = BASE + LENGTH(BATCH)
    :: else -> end0 = BASE + LENGTH(BATCH)
    fi
}

inline fold_batch(BATCH, BASE) {
    fold_offsets(BATCH, BASE);
#ifdef MUTANT_FOLD_FORGETS_DELETION
    if :: BATCH == DROP -> end1 = 0 :: else -> seen = seen | BIT(BATCH) fi
#else
    seen = seen | BIT(BATCH)
#endif
}

inline load_checkpoint(SEQ) {
    end0 = checkpoint_end0[SEQ]; end1 = checkpoint_end1[SEQ]; seen = checkpoint_seen[SEQ];
    low = SEQ; s = SEQ + 1
}

inline put_checkpoint(SEQ) { /* if it is there already, it says the same */
    if
    :: !checkpoint[SEQ] ->
        checkpoint[SEQ] = true;
        checkpoint_end0[SEQ] = end0; checkpoint_end1[SEQ] = end1; checkpoint_seen[SEQ] = seen
    :: else
    fi
}

/* A writer appends one batch, then perhaps another, and a third. What it knows in between is W0:
 * `s`, the next key, and the fold (end0, end1, seen) of the bundles 0..s-1, if `verified`.
 * `low` is the lowest key of what it has read since, for the head-check rule. */
proctype Writer(byte me; byte batch; byte second; byte third) {
    byte s, end0, end1, seen, low, base, nonce;
    bool verified, stale, tried;
#ifdef GIVES_UP
    byte given_up; /* bundles whose fate was left open; each attempt after one has its own nonce */
#endif

begin:
    if :: verified -> goto build :: else fi;

learn: /* W1: head, checkpoint, every bundle after it, head again */
    atomic { low = floor; s = floor_stands_on; remember_head() };
    /* The checkpoint that head names, or the newest one: it is found by way of a hint. A named one
     * that is missing means that head has moved since; if it has not, the lane is lost. */
    atomic {
        i = KEYS;
        do :: i > s && !checkpoint[i - 1] -> i-- :: else -> break od;
        if
        :: i > s -> load_checkpoint(i - 1)
        :: s > 0 && checkpoint[s - 1] -> load_checkpoint(s - 1)
        :: s > 0 && !checkpoint[s - 1] && i <= s ->
            assert(J8_the_floor_stands_on_a_checkpoint || floor_stands_on != s);
            i = 0; goto learn
        :: s == 0 -> s = low; end0 = 0; end1 = 0; seen = 0
        fi;
        i = 0
    };
walk:
    do
    :: atomic {
        if
        :: s < KEYS && bundle[s] != NONE -> fold_batch(bundle[s], bundle_base[s]); s++
        :: else -> break
        fi
    }
    od;
    atomic {
#ifdef MUTANT_WALK_CHECKED_AT_ITS_END
        if :: !verified && s > low -> low = s - 1 :: else fi;
#endif
        read_head_again(low);
#ifdef MUTANT_WALK_NOT_CHECKED
        if :: !verified -> stale = false :: else fi;
#endif
#ifdef MUTANT_WINNER_NOT_CHECKED
        if :: verified -> stale = false :: else fi;
#endif
#ifdef MUTANT_CHECKPOINT_OF_UNVERIFIED_FOLD
        if :: batch == CHECKPOINT -> stale = false :: else fi;
#endif
#ifdef MUTANT_LOG_START_FROM_UNVERIFIED_END
        if :: batch == ERASE -> stale = false :: else fi;
#endif
#ifdef MUTANT_WINNER_CHECKED_BEFORE_GOING_ON
        if :: verified -> stale = false :: else fi;
#endif
        low = 0;
        if :: stale -> goto start_over :: else -> verified = true; tried = false fi
    };

build: /* W2: answer what the fold knows, give offsets to the rest */
    atomic {
        if
        :: batch == CHECKPOINT -> goto write_checkpoint
        :: batch == ERASE ->
            if :: end0 > log_start[0] -> log_start[0] = end0 :: else fi;
            assert(J5_log_start_is_not_beyond_the_end || log_start[0] <= true_end[0]);
            goto next
        :: else
        fi;
        if
        :: RECOGNISED(batch) && (seen & BIT(batch)) ->
            assert(J3_an_answer_is_what_is_stored || true_place[batch] != 0);
            goto next
        :: else
        fi;
        if
        :: PARTITION(batch) && (seen & BIT(DROP)) ->
            assert(J6_what_is_told_to_be_absent_is_absent || true_place[DROP] != 0);
            goto next
        :: else
        fi;
        if :: s >= KEYS -> goto done :: else fi;
        base = (PARTITION(batch) -> end1 : end0);
#ifdef GIVES_UP
        nonce = me + 1 + given_up * PROCESSES
#else
        nonce = me + 1
#endif
    };
#ifdef MUTANT_CHECK_BEFORE_PUT
    atomic { read_head_again(s); if :: stale -> goto start_over :: else fi };
#endif
#ifdef MUTANT_CHECKPOINT_BEFORE_THE_ANSWER
    atomic { read_head_again(s); if :: stale -> goto start_over :: else fi };
    atomic {
        low = seen; fold_batch(batch, base); put_checkpoint(s);
        seen = low; low = 0;
        if :: PARTITION(batch) -> end1 = base :: else -> end0 = base fi
    };
#endif

put: /* The same bytes to the same key, until the key is seen occupied */
    atomic {
        tried = !RECOGNISED(batch); /* from here on it may be stored, whatever the answer is */
        if
        :: bundle[s] != NONE -> goto read_winner
        :: else ->
            if
            :: create_bundle(s, batch, nonce, base); goto confirm
#ifndef NO_LOST_ANSWERS
            :: create_bundle(s, batch, nonce, base)
#endif
#ifdef REPLAYED /* sent twice, by a proxy or on two connections; we see the second answer */
            :: create_bundle(s, batch, nonce, base);
#ifdef MUTANT_EXISTS_MEANS_NOT_STORED
                tried = false;
#endif
                goto read_winner
#endif
#ifdef LATE
            :: !late ->
                late = true; late_key = s; late_batch = batch; late_nonce = nonce; late_base = base
#endif
            fi
        fi;
        /* No answer. */
#ifdef MUTANT_RETRY_WITH_A_NEW_NONCE
        nonce = me + 1 + PROCESSES;
#endif
#ifdef MUTANT_RETRY_WITH_OTHER_BATCHES
        if :: second != NONE -> i = batch; batch = second; second = i; i = 0 :: else fi;
#endif
#ifdef GIVES_UP
        /* Puts of this size may never end in time. A batch that can be recognised is put again in a
         * smaller bundle, with a nonce of its own, or its client is told that the outcome is
         * unknown; a plain one is not put again. The next batch goes to the same key. */
        if
        :: given_up < 2 ->
            given_up++; nonce = me + 1 + given_up * PROCESSES;
#ifndef MUTANT_GIVEN_UP_AND_TAKEN_FOR_ABSENT
            if :: tried -> goto next :: else fi;
#endif
            if :: goto next :: goto put fi
        :: true
        fi;
#endif
        goto put
    };

read_winner: /* W3: the key exists; whose is it? */
    atomic {
        if
        :: bundle[s] == NONE -> goto start_over /* deleted between the two requests */
        :: bundle[s] != NONE && bundle_nonce[s] == nonce -> goto confirm
        :: else
        fi;
#if defined(MUTANT_LOSER_TAKES_OFFSETS_ONLY)
        fold_offsets(bundle[s], bundle_base[s]);
#elif !defined(MUTANT_LOSER_FOLDS_NOTHING)
        fold_batch(bundle[s], bundle_base[s]);
#endif
        low = s; s++; base = 0; nonce = 0
    };
#ifdef MUTANT_WINNER_CHECKED_BEFORE_GOING_ON
    atomic { read_head_again(low); if :: stale -> goto start_over :: else fi };
#endif
    goto walk; /* forward to the first absent key, then head, then build again */

confirm: /* W4: stored, but in the log only if the floor has not passed it */
#if !defined(MUTANT_NO_W4) && !defined(MUTANT_CHECK_BEFORE_PUT)
    atomic {
        read_head_again(s);
#ifndef MUTANT_PASSED_BY_THE_FLOOR_IS_SUCCESS
        if :: stale -> goto start_over :: else fi
#endif
    };
#endif
    atomic {
        assert(J3_an_answer_is_what_is_stored || true_place[batch] == base + 1);
        fold_batch(batch, base); s++; verified = true
    };
#ifdef WRITERS_CHECKPOINT
    if :: goto write_checkpoint :: skip fi;
#endif
    goto next;

write_checkpoint: /* off the way of answers: nobody waits for it */
    if :: s == 0 -> goto next :: else fi;
#ifndef CHECKPOINT_WITHOUT_HEAD
    atomic { read_head_again(s - 1); if :: stale -> goto next :: else fi };
#endif
    atomic { put_checkpoint(s - 1) };
    goto next;

start_over: /* Nothing is known. A plain batch that may be stored cannot be looked for: its client
             * is told that the outcome is unknown, and it is not appended again. */
    atomic {
        verified = false; stale = false; low = 0; base = 0; nonce = 0;
#ifndef MUTANT_PLAIN_BATCH_APPENDED_AGAIN
        if :: tried -> goto next :: else fi;
#endif
        tried = false; goto learn
    };

next:
    atomic {
        base = 0; nonce = 0; stale = false; tried = false; low = 0;
        batch = second; second = third; third = NONE;
        if :: batch == NONE -> goto done :: else -> goto begin fi
    };
done:
    atomic { s = 0; end0 = 0; end1 = 0; seen = 0; verified = false }
}

/* A sealer moves what is below x into the manifests, raises the floor to x, waits, and deletes. */
proctype Sealer() {
    byte s, end0, end1, seen, low; /* the fold, as above */
    byte from, x, end, stands_on, round, p, k;
    byte copy[KEYS], copy_base[KEYS];

again:
    if :: round == ROUNDS -> goto done :: else -> round++ fi;
    /* Head, and the fold up to the checkpoint it names. No token does for a sealer. */
    atomic { from = floor; end = from; stands_on = floor_stands_on; s = stands_on };
    atomic {
        if
        :: s > 0 && checkpoint[s - 1] -> load_checkpoint(s - 1)
        :: s > 0 && !checkpoint[s - 1] ->
            assert(J8_the_floor_stands_on_a_checkpoint || floor_stands_on != s);
            goto clear
        :: else
        fi;
        low = 0
    };
    /* Every bundle from the floor on; those behind the checkpoint are folded. */
    do
    :: atomic {
        if
        :: end < KEYS && bundle[end] != NONE ->
            copy[end] = bundle[end]; copy_base[end] = bundle_base[end];
            if :: end == s -> fold_batch(bundle[s], bundle_base[s]); s++ :: else fi;
            end++
        :: else -> break
        fi
    }
    od;
    /* Head again, before anything is written. */
    atomic {
#ifndef MUTANT_SEALER_DOES_NOT_CHECK
        if :: floor != from -> goto clear :: else fi;
#endif
        if :: end < from + 2 || s != end -> goto clear :: else fi
    };
#ifndef MUTANT_TRIM_PAST_CHECKPOINT
    /* A checkpoint of the last bundle read, its own or another's, equal to its fold. */
    atomic {
        put_checkpoint(end - 1);
        if
        :: checkpoint_end0[end - 1] != end0 || checkpoint_end1[end - 1] != end1 ||
           checkpoint_seen[end - 1] != seen -> goto clear
        :: else
        fi;
        stands_on = end
    };
#endif
    /* The checkpoint is at or after x: that bundle and that checkpoint are not deleted. */
    atomic {
        x = from + 1;
#ifdef MUTANT_CHECKPOINT_BELOW_THE_FLOOR
        x = end;
#else
        do :: x < end - 1 -> x++ :: break od;
#endif
        s = 0; end0 = 0; end1 = 0
    };
#ifdef MUTANT_FLOOR_BEFORE_MANIFEST
    goto raise_floor;
#endif
manifests:
    p = 0;
    do
    :: p < 2 -> atomic {
        k = from;
        do
        :: k < x ->
            if
            :: PARTITION(copy[k]) != p || copy[k] == DROP || (p == 1 && (seen & BIT(DROP)))
            :: PARTITION(copy[k]) == p && copy[k] != DROP && !(p == 1 && (seen & BIT(DROP))) &&
               copy_base[k] + LENGTH(copy[k]) <= log_start[p] ->
#ifndef MUTANT_SEALED_END_NOT_RAISED
                if
                :: copy_base[k] + LENGTH(copy[k]) > sealed_end[p] ->
                    sealed_end[p] = copy_base[k] + LENGTH(copy[k]) /* without bytes */
                :: else
                fi;
#endif
                skip
            :: else ->
                if
                :: copy_base[k] == sealed_end[p] ->
                    for (i : 0 .. LENGTH(copy[k])) {
                        if
                        :: i < LENGTH(copy[k]) ->
                            assert(J4_what_is_sealed_is_what_was_stored ||
                                   true_record[p * OFFSETS + sealed_end[p] + i] == copy[k])
                        :: else
                        fi
                    }
                    i = 0;
                    sealed_end[p] = sealed_end[p] + LENGTH(copy[k])
                :: else /* sealed before, by another */
                fi
            fi;
            k++
        :: else -> break
        od;
        k = 0; p++
    }
    :: else -> break
    od;
#ifdef MUTANT_FLOOR_BEFORE_MANIFEST
    goto wait;
#endif
raise_floor:
#ifdef MUTANT_DELETE_BEFORE_FLOOR
    do :: k < x -> atomic { delete_below(k); k++ } :: else -> break od;
#endif
    atomic {
        k = 0; p = 0;
        if :: floor != from -> goto clear :: else fi;
        floor = x; floor_stands_on = stands_on;
#ifndef MUTANT_FLOOR_BEFORE_MANIFEST
        do
        :: k < x ->
            p = PARTITION(true_batch[k]);
            low = true_place[true_batch[k]] - 1 + LENGTH(true_batch[k]);
            assert(J4_below_the_floor_all_is_sealed || low <= sealed_end[p] ||
                   low <= log_start[p] || (p == 1 && true_place[DROP] != 0));
            k++
        :: else -> break
        od;
        k = 0; p = 0; low = 0
#endif
    };
#ifdef MUTANT_FLOOR_BEFORE_MANIFEST
    goto manifests;
#endif
wait: /* G: until every head read that showed a lower floor is old. */
    skip;
#if defined(TOKENS) && !defined(MUTANT_CLOCK_STOPS_IN_SLEEP)
    atomic {
        do
        :: k < PROCESSES -> if :: token[k] != 0 && token[k] - 1 < x -> token[k] = 0 :: else fi; k++
        :: else -> break
        od;
        k = 0
    };
#endif
#ifdef DELETED_FROM_ABOVE /* a store deletes many objects in an order of its own */
    do :: k < x -> atomic { delete_below(x - 1 - k); k++ } :: else -> break od;
#else
    do :: k < x -> atomic { delete_below(k); k++ } :: else -> break od;
#endif
clear:
    atomic {
        k = 0;
        do :: k < KEYS -> copy[k] = 0; copy_base[k] = 0; k++ :: else -> break od;
        k = 0; p = 0; x = 0; end = 0; from = 0; stands_on = 0; low = 0;
        s = 0; end0 = 0; end1 = 0; seen = 0;
        goto again
    };
done:
    round = 0
}

#ifdef READER
/* A reader asks for one offset: the journal first, then the manifest. */
proctype Reader(byte me; byte p; byte offset) {
    byte from, k, found, end_then, sealed;
    bool stale;

    end_then = true_end[p]; /* the request comes in */
#ifdef MUTANT_MANIFEST_BEFORE_JOURNAL
    sealed = sealed_end[p];
    if :: offset < sealed -> goto done :: else fi;
#endif
journal:
    atomic { from = floor; k = from; found = KEYS; remember_head() };
    do
    :: atomic {
        if
        :: k < KEYS && bundle[k] != NONE ->
            if
            :: PARTITION(bundle[k]) == p && bundle_base[k] <= offset &&
               offset < bundle_base[k] + LENGTH(bundle[k]) -> found = k; break
            :: else -> k++
            fi
        :: else -> break
        fi
    }
    od;
    atomic {
        read_head_again(from);
#ifdef MUTANT_READER_DOES_NOT_CHECK
        stale = false;
#endif
        k = 0; from = 0;
        if :: stale -> goto journal :: else fi
    };
    if
    :: found < KEYS ->
        /* The place is remembered, and the bytes are fetched later. Meanwhile another request of
         * the same broker may have read head. */
#ifdef TOKENS
        if :: atomic { remember_head() } :: skip fi;
#endif
        atomic { if :: bundle[found] == NONE -> goto journal :: else -> k = bundle[found] fi };
        atomic {
#ifdef MUTANT_READER_CHECKS_ANOTHER_KEY
            read_head_again(KEYS - 1); /* that of the checkpoint which told it the place, say */
#else
            read_head_again(found);
#endif
#ifdef MUTANT_READER_DOES_NOT_CHECK
            stale = false;
#endif
            if
            :: stale -> k = 0; goto journal
            :: else -> assert(J9_a_reader_sees_the_log || k == true_record[p * OFFSETS + offset])
            fi
        }
    :: else ->
        /* What is in the manifest was compared with the log when it was sealed. */
        atomic {
#ifndef MUTANT_MANIFEST_BEFORE_JOURNAL
            sealed = sealed_end[p];
#endif
            assert(J6_what_is_told_to_be_absent_is_absent ||
                   offset < sealed || offset >= end_then ||
                   offset < log_start[p] || (p == 1 && true_place[DROP] != 0))
        }
    fi;
done:
    atomic { from = 0; k = 0; found = 0; end_then = 0; sealed = 0; stale = false }
}
#endif

#ifdef LATE
/* The network delivers a PUT long after its sender gave up waiting. */
proctype Network() {
end:
    atomic {
        late ->
            if
            :: bundle[late_key] == NONE ->
                create_bundle(late_key, late_batch, late_nonce, late_base)
            :: else
            fi;
            late_key = 0; late_batch = 0; late_nonce = 0; late_base = 0
        /* `late` stays set: one is enough. */
    }
}
#endif

#ifdef CLEANER
/* Someone who deletes checkpoints on which no floor stands, since they can be derived again. */
proctype Cleaner() {
    atomic {
        if
        :: checkpoint[0] && floor_stands_on != 1 -> checkpoint[0] = false
        :: checkpoint[1] && floor_stands_on != 2 -> checkpoint[1] = false
        :: checkpoint[KEYS - 1] && floor_stands_on != KEYS -> checkpoint[KEYS - 1] = false
        :: true
        fi
    }
}
#endif

init {
    atomic {
        START;
#ifdef LATE
        run Network();
#endif
    }
}
