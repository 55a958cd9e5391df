/* One partition's history: who may replace its segments, who may delete them, who may rely on them.
 *
 *   objects    0  1  2  3 ...     segments; each has a name that only its writer can have
 *   manifest   rows               which objects are the history: [base, next) each, without a gap
 *              intents            who is writing, and since when
 *              dropped            what was taken out of the rows, and since when
 *              log_start, sealed_end, cleaned_end
 *
 * A seal adds a row at the end. A merge makes one row of two neighbours, a compaction one of all
 * rows that it cleaned; each takes the place of the rows that were read, or nothing happens. Retain
 * lets the log begin later. A sweep deletes what was dropped a grace ago, and what nobody names and
 * nobody has announced. A reader reads the manifest once, and its objects later: for the grace it
 * finds them, whatever became of the manifest since.
 *
 * The danger is a pause. A writer that sleeps for longer than the grace wakes up with objects that
 * were swept, and must not commit them: it commits only while its intent stands, and a sweep takes
 * out the intent, by compare-and-swap, before it deletes what was announced.
 *
 * One request to the store is one atomic step. A change of the manifest is a function of what stands
 * there, repeated until it lands or has nothing to do: one step as well, and a lost answer is the
 * same step again. Between any two steps a process may sleep while the others run, or die. Reads of
 * many objects are one step: they never change, and what is gone stays gone. Time is a counter that
 * anybody may be surprised by; it is the store's, and G is one tick unless GRACE says otherwise.
 *
 * Since when something is dropped, nobody knows who drops it: what is asked before a change is too
 * early by as long as the change takes. So the change says nothing, and the next one writes down
 * when the store says that this manifest was stored; until then a sweep takes that time from the
 * store. The floors of a lane's head do the same. The sweep of the shipped code is more careful
 * still: it asks for the time when it has seen that something was dropped, and writes that down.
 *
 * The history is that of records 0, 1, ... Those in KEY_B have key b, the others a; those in TOMBS
 * are tombstones. With COMPACTED, rows cover all offsets but records may go.
 *
 * tests/model/check.py puts definitions before this text: who takes part (START), how much was
 * sealed before (SEALED), and at most one mistake. The mistakes, and what comes of them:
 *
 *   *intent after output*: a sweep that has listed the object deletes it when it is named.
 *   *sweep ignores intents*: the same, for everybody who takes longer than the grace.
 *   *old intents are not cancelled*: only passed over. Who slept commits what is being deleted.
 *   *commit without intent*: who was cancelled commits what was deleted.
 *   *manifest before listing*: what was announced and written in between looks like nobody's.
 *   *named objects are swept*: the sweep goes by age and intents, and forgets the rows.
 *   *sweep ignores grace*: what was dropped is deleted under those who read it.
 *   *replaced rows are forgotten*: not named as dropped, they are nobody's, and old enough at once.
 *   *dropped since the intent*: a merge takes its time, and that time is taken from its readers.
 *   *dropped since before the commit*: so is that from asking for the time to the change.
 *   *rows are not compared*: two who merge the same rows both name their copies of them.
 *   *what is left of the rows is replaced*: a row for offsets that have another row by now.
 *   *plain names are not burnt*: a sweep deletes what a second sealer has made under the name.
 *   *two with one id*: one is cancelled and the other announces the id again; the first commits.
 *   *leftovers stay*: what the dead have written is never deleted.
 *   *seal anywhere*: two sealers name the same offsets.
 *   *lost answer is a failure*: the commit was stored, and its object is deleted as a failure's.
 *   *drop without a start*: the log has a hole, or begins where nobody says.
 *   *drop as planned*: by where rows begin, and not again by the manifest as it is then: one of
 *     them reaches beyond the start.
 *   *not read back*: what another has put under the same name is named as ours.
 *   *cleaned end as found later*: what was sealed meanwhile counts as cleaned and was not noted; its
 *     tombstones then go before what they outdate.
 *   *only dirty rows are cleaned*: tombstones outlive their map, not what lies in older rows.
 *   *unsealed records are noted*: a record is outdated by one that is never sealed in that place.
 *   *map outdates itself*: the newest record of a key goes with the older ones.
 *   *tombstones beyond the map go*: they outdate what no map has met.
 */

#ifndef START
#define START run Rewriter(2, false); run Sweeper(1)
#define REWRITER
#define SWEEPER
#endif
#ifndef SEALED
#define SEALED 2
#endif
#ifndef OBJECTS
#define OBJECTS 4
#endif
#ifndef GRACE
#define GRACE 1
#endif
#ifndef TIME_MAX
#define TIME_MAX 2
#endif
#ifndef KEY_B
#define KEY_B 0
#endif
#ifndef TOMBS
#define TOMBS 0
#endif

#define OFFSETS 4
#define BIT(x) (1 << (x))
#define HAS(mask, x) (((mask) >> (x)) & 1)
#define UNTIL(x) (BIT(x) - 1) /* all before x */

/* Never true. They stand in the assertions, so that the checker prints which law was broken. */
bool H1_every_offset_is_in_one_row;
bool H1_what_a_row_names_is_there;
bool H1_a_row_holds_its_records;
bool H2_the_newest_record_of_a_key_stays;
bool H3_what_is_named_is_not_deleted;
bool H4_a_reader_finds_what_it_was_promised;
bool H5_nothing_is_left_that_nobody_names;
bool H6_an_outdated_record_does_not_come_back;
bool H6_what_is_cleaned_has_one_record_of_a_key;

/* The store. Sets of objects, and of records, are bits. */
byte objects;             /* which are there */
byte modified[OBJECTS];
byte kept[OBJECTS];       /* the records in it */
byte marked[OBJECTS];     /* tombstones that a cleaning has met: the next one may let them go */
byte base[OBJECTS];       /* of the row that names it, or will */
byte next[OBJECTS];
/* The manifest. */
byte rows, intents, dropped;
byte begun[OBJECTS];      /* since when there is an intent */
byte since[OBJECTS];      /* since when it is dropped, if that is known: */
byte unstamped, stored;   /* dropped by the newest change, which the store has stored then */
byte log_start, sealed_end, cleaned_end;
#ifdef PLAIN
bool burnt;               /* names without an id are not used any more */
#endif

byte now;
#ifdef LATE
byte late;                /* object + 1: a PUT that was sent twice, of which one is on its way */
byte late_kept, late_marked;
#endif
/* The truth, and what is for loops and sums within one step; 0 between steps. */
byte true_start;          /* where the log begins because somebody said so */
byte true_gone;           /* records that compaction has taken out */
byte i, j, seen;

inline may_die() { if :: skip :: goto done fi }

inline judge_key(KEY) {
    i = sealed_end;
    do :: i > 0 && !HAS(KEY, i - 1) -> i-- :: else -> break od;
    if
    :: i > true_start && !HAS(TOMBS, i - 1) ->
        assert(H2_the_newest_record_of_a_key_stays || HAS(seen, i - 1))
    :: i > true_start && HAS(TOMBS, i - 1) && !HAS(seen, i - 1) ->
        assert(H6_an_outdated_record_does_not_come_back || (seen & KEY) == 0)
    :: else
    fi;
    j = seen & KEY & UNTIL(cleaned_end); /* a power of two, or nothing */
    assert(H6_what_is_cleaned_has_one_record_of_a_key || (j & (j - 1)) == 0)
}

inline judge() {
    assert(H1_what_a_row_names_is_there || (rows & ~objects) == 0);
    i = log_start; seen = 0;
    do
    :: i < sealed_end ->
        j = 0;
        do
        :: j < OBJECTS ->
            if
            :: HAS(rows, j) && base[j] <= i && i < next[j] ->
                assert(H1_every_offset_is_in_one_row || !HAS(seen, i));
                seen = seen | BIT(i)
            :: else
            fi;
            j++
        :: else -> break
        od;
        assert(H1_every_offset_is_in_one_row || HAS(seen, i));
        i++
    :: else -> break
    od;
    j = 0; seen = 0;
    do
    :: j < OBJECTS -> if :: HAS(rows, j) -> seen = seen | kept[j] :: else fi; j++
    :: else -> break
    od;
    seen = seen & ~UNTIL(log_start);
#ifdef COMPACTED
    judge_key((KEY_B));
    judge_key((UNTIL(OFFSETS) - (KEY_B)));
    assert(H6_an_outdated_record_does_not_come_back || (seen & true_gone) == 0);
    true_gone = UNTIL(sealed_end) & ~UNTIL(true_start) & ~seen;
#else
    assert(H1_a_row_holds_its_records || seen == (UNTIL(sealed_end) & ~UNTIL(true_start)));
#endif
    i = 0; j = 0; seen = 0
}

/* Every change of the manifest begins so. */
inline stamp() {
    i = 0;
    do
    :: unstamped != 0 && i < OBJECTS ->
        if :: HAS(unstamped, i) -> since[i] = stored :: else fi; i++
    :: else -> break
    od;
    i = 0; unstamped = 0; stored = 0
}

inline drop(WHICH) {
    rows = rows & ~(WHICH);
#ifndef MUTANT_REPLACED_ROWS_ARE_FORGOTTEN
    dropped = dropped | (WHICH);
#if defined(MUTANT_DROPPED_SINCE_THE_INTENT) || defined(MUTANT_DROPPED_SINCE_BEFORE_THE_COMMIT)
    i = 0;
    do
    :: i < OBJECTS -> if :: HAS(WHICH, i) -> since[i] = t :: else fi; i++
    :: else -> break
    od;
    i = 0
#else
    if :: (WHICH) != 0 -> unstamped = (WHICH); stored = now :: else fi
#endif
#endif
}

inline begin() { stamp(); intents = intents | BIT(me); begun[me] = t }

inline end_intent() { intents = intents & ~BIT(me); begun[me] = 0 }

inline put(NAME, KEPT, MARKED) { /* if it is there already, nothing happens */
    if
    :: !HAS(objects, NAME) ->
        objects = objects | BIT(NAME); modified[NAME] = now;
        kept[NAME] = KEPT; marked[NAME] = MARKED
    :: else
    fi;
#ifdef LATE
    if :: late == 0 -> late = NAME + 1; late_kept = KEPT; late_marked = MARKED :: skip fi
#endif
}

inline read_back(NAME, KEPT) {
#ifdef MUTANT_NOT_READ_BACK
    skip
#else
    if :: !HAS(objects, NAME) || kept[NAME] != KEPT -> goto done :: else fi
#endif
}

inline name(NAME, BASE, NEXT) { rows = rows | BIT(NAME); base[NAME] = BASE; next[NAME] = NEXT }

inline delete(WHICH) {
    assert(H3_what_is_named_is_not_deleted || !HAS(rows, WHICH));
    objects = objects & ~BIT(WHICH);
    modified[WHICH] = 0; base[WHICH] = 0; next[WHICH] = 0; kept[WHICH] = 0; marked[WHICH] = 0
}

#ifdef SEALER
/* The sealed records are those of the journal, so sealers of the same offset write the same. With
 * PLAIN, the first to come gets a name without an id, until such names are burnt. */
proctype Sealer(byte me) {
    byte t, key;

    atomic { t = now; key = me };
    atomic {
        may_die();
        if :: sealed_end != SEALED -> goto done :: else fi;
#ifdef PLAIN
        key = (burnt -> me : PLAIN);
#endif
#ifndef MUTANT_INTENT_AFTER_OUTPUT
        begin()
#endif
    };
#ifdef PLAIN
    atomic {
        may_die();
        if
        :: key == PLAIN && HAS(objects, PLAIN) -> key = me
        :: key == PLAIN && !HAS(objects, PLAIN) -> put(PLAIN, BIT(SEALED), 0)
        :: key == PLAIN && !HAS(objects, PLAIN) -> put(PLAIN, BIT(SEALED), 0); key = me /* lost */
        :: else
        fi
    };
#endif
    atomic { may_die(); if :: key == me -> put(me, BIT(SEALED), 0) :: else fi };
#ifdef MUTANT_INTENT_AFTER_OUTPUT
    atomic { may_die(); begin() };
#endif
    atomic { may_die(); read_back(key, BIT(SEALED)) };
commit:
    atomic {
        may_die();
#ifdef MUTANT_SEAL_ANYWHERE
        if :: !HAS(intents, me) -> goto done :: else fi;
#elif defined(MUTANT_COMMIT_WITHOUT_INTENT)
        if :: sealed_end != SEALED -> goto done :: else fi;
#else
        if :: !HAS(intents, me) || sealed_end != SEALED -> goto done :: else fi;
#endif
        stamp(); end_intent();
        name(key, SEALED, SEALED + 1); sealed_end = SEALED + 1;
        judge();
        if :: goto done :: goto commit fi /* the answer came, or was lost */
    };
done:
    atomic { t = 0; key = 0 }
}
#endif

#ifdef REWRITER
inline is_there(ANSWER) { /* all that was planned, as it was planned */
    i = 0; j = 0;
    do
    :: i < OBJECTS -> if :: HAS(old, i) -> j = j + next[i] :: else fi; i++
    :: else -> break
    od;
    ANSWER = ((old & rows) == old && j == reach);
    i = 0; j = 0
}

/* Of what was read: the newest of each key in [dirty_from, noted_end) outdates what is before it.
 * A tombstone that was met before may go, if its time has come; one that stays has been met. */
inline clean() {
    seen = keep & UNTIL(noted_end) & ~UNTIL(dirty_from); /* noted */
#ifdef MUTANT_UNSEALED_RECORDS_ARE_NOTED
    seen = seen | BIT(sealed_end);
#endif
    there = false; /* whether the time of tombstones has come */
    if :: there = true :: skip fi;
    stay = keep; j = mark; /* as they were */
    i = 0;
    do
    :: i < noted_end ->
        if
        :: !HAS(keep, i)
        :: HAS(keep, i) && HAS(j, i) && there -> keep = keep & ~BIT(i)
        :: HAS(keep, i) && !(HAS(j, i) && there) ->
#ifdef MUTANT_MAP_OUTDATES_ITSELF
            if
            :: ((HAS(KEY_B, i) -> (KEY_B) : ~(KEY_B)) & seen & ~UNTIL(i)) != 0 ->
#else
            if
            :: ((HAS(KEY_B, i) -> (KEY_B) : ~(KEY_B)) & seen & ~UNTIL(i + 1)) != 0 ->
#endif
                keep = keep & ~BIT(i)
            :: else
            fi
        fi;
        i++
    :: else -> break
    od;
#ifdef MUTANT_TOMBSTONES_BEYOND_THE_MAP_GO
    keep = keep & (UNTIL(noted_end) | ~(TOMBS));
#endif
    mark = keep & (TOMBS);
    /* What changed first, and the row that it is in: the rows before that one stay. */
    seen = (stay & ~keep) | (mark & ~j);
    stay = old;
    if
    :: seen != 0 ->
        i = 0;
        do :: HAS(seen, i) -> break :: else -> i++ od;
        seen = i; i = 0; stay = 0;
        do
        :: i < OBJECTS ->
            if
            :: HAS(old, i) && next[i] <= seen ->
                stay = stay | BIT(i); keep = keep & ~kept[i]; mark = mark & ~kept[i]
            :: HAS(old, i) && base[i] <= seen && seen < next[i] -> first = base[i]
            :: else
            fi;
            i++
        :: else -> break
        od
    :: else
    fi;
    i = 0; j = 0; seen = 0; there = false; dirty_from = 0
}

/* Merger and compactor differ in what they plan, and in what they keep of what they read. */
proctype Rewriter(byte me; bool compacts) {
    byte t, old, stay, first, end, reach, keep, mark, dirty_from, noted_end;
    bool there;

    atomic { t = now };
    atomic { /* plan: what the manifest says now */
        if
        :: !compacts ->
            i = 0; /* any two neighbours that can still be read */
            do
            :: i == OBJECTS -> i = 0; goto done
            :: i < OBJECTS && HAS(rows, i) && next[i] > log_start && next[i] < sealed_end -> break
            :: i < OBJECTS -> i++
            od;
            j = 0;
            do :: HAS(rows, j) && base[j] == next[i] -> break :: else -> j++ od;
            old = BIT(i) | BIT(j); first = base[i]; end = next[j]; reach = next[i] + next[j]
        :: compacts ->
            dirty_from = cleaned_end;
            if :: sealed_end <= dirty_from -> goto done :: else fi;
            noted_end = sealed_end; /* or less, if the map is full or what is younger must wait */
            do :: noted_end > dirty_from + 1 -> noted_end-- :: break od;
            i = 0; first = OFFSETS;
            do
            :: i < OBJECTS ->
                if
#ifdef MUTANT_ONLY_DIRTY_ROWS_ARE_CLEANED
                :: HAS(rows, i) && next[i] > dirty_from && base[i] < noted_end ->
#else
                :: HAS(rows, i) && next[i] > log_start && base[i] < noted_end ->
#endif
                    old = old | BIT(i); reach = reach + next[i];
                    if :: base[i] < first -> first = base[i] :: else fi;
                    if :: next[i] > end -> end = next[i] :: else fi
                :: else
                fi;
                i++
            :: else -> break
            od;
            if :: old == 0 -> i = 0; goto done :: else fi
        fi;
        i = 0; j = 0
    };
#ifndef MUTANT_INTENT_AFTER_OUTPUT
    atomic { may_die(); begin(); is_there(there); if :: !there -> goto done :: else fi };
#endif
    atomic { /* read, and decide what stays */
        may_die();
        if :: (old & objects) != old -> goto done :: else fi;
        i = 0;
        do
        :: i < OBJECTS ->
            if :: HAS(old, i) -> keep = keep | kept[i]; mark = mark | marked[i] :: else fi; i++
        :: else -> break
        od;
        i = 0;
        if :: compacts -> clean() :: else fi
    };
    if :: keep == 0 || stay == old -> goto commit :: else fi;
    atomic { may_die(); put(me, keep, mark) };
#ifdef MUTANT_INTENT_AFTER_OUTPUT
    atomic { may_die(); begin(); is_there(there); if :: !there -> goto done :: else fi };
#endif
    atomic { may_die(); read_back(me, keep) };
#ifdef MUTANT_DROPPED_SINCE_BEFORE_THE_COMMIT
    t = now;
#endif
commit:
    atomic {
        may_die();
        is_there(there);
#ifdef MUTANT_ROWS_ARE_NOT_COMPARED
        there = true;
#endif
#ifdef MUTANT_WHAT_IS_LEFT_OF_THE_ROWS_IS_REPLACED
        there = ((old & rows) != 0); old = old & rows;
#endif
#ifdef MUTANT_COMMIT_WITHOUT_INTENT
        if :: !there -> goto done :: else fi;
#else
        if :: !there || !HAS(intents, me) -> goto done :: else fi;
#endif
        stamp(); end_intent();
        if
        :: stay == old /* nothing has changed; the rows stay */
        :: stay != old && keep == 0 -> /* nothing is left: the row before reaches over it */
            i = 0;
            do
            :: i < OBJECTS && HAS(rows, i) && next[i] == first -> next[i] = end; break
            :: i < OBJECTS && !(HAS(rows, i) && next[i] == first) -> i++
            :: i == OBJECTS -> if :: log_start < end -> log_start = end :: else fi; break
            od;
            i = 0;
            drop(old & ~stay)
        :: stay != old && keep != 0 ->
            drop(old & ~stay); name(me, first, end)
        fi;
#ifdef MUTANT_CLEANED_END_AS_FOUND_LATER
        if :: compacts -> noted_end = sealed_end :: else fi;
#endif
        if :: noted_end > cleaned_end -> cleaned_end = noted_end :: else fi;
        judge();
        if
        :: goto done
        :: true /* the answer was lost: look again */
        fi
    };
#ifdef MUTANT_LOST_ANSWER_IS_A_FAILURE
    atomic { delete(me) };
    goto done;
#endif
    goto commit;
done:
    atomic {
        t = 0; old = 0; stay = 0; first = 0; end = 0; reach = 0; keep = 0; mark = 0;
        dirty_from = 0; noted_end = 0; there = false
    }
}
#endif

#ifdef RETAINER
inline before_start(AT, ANSWER) {
    i = 0; ANSWER = 0;
    do
    :: i < OBJECTS ->
#ifdef MUTANT_DROP_AS_PLANNED
        if :: HAS(rows, i) && base[i] < AT -> ANSWER = ANSWER | BIT(i) :: else fi;
#else
        if :: HAS(rows, i) && next[i] <= AT -> ANSWER = ANSWER | BIT(i) :: else fi;
#endif
        i++
    :: else -> break
    od;
    i = 0
}

/* The start of the log may be anywhere: DeleteRecords moves it as retention does. */
proctype Retainer() {
    byte t, start, planned;

    atomic {
        t = now;
        if :: log_start == sealed_end -> goto done :: else fi;
        start = log_start + 1;
        do :: start < sealed_end -> start++ :: break od;
        before_start(start, planned)
    };
#ifndef MUTANT_DROP_WITHOUT_A_START
    atomic {
        may_die();
        if :: start > log_start -> stamp(); log_start = start :: else fi;
        if :: start > true_start -> true_start = start :: else fi;
        judge()
    };
#endif
    atomic {
        may_die();
#if !defined(MUTANT_DROP_AS_PLANNED) && !defined(MUTANT_DROP_WITHOUT_A_START)
        before_start(log_start, planned);
#endif
        planned = planned & rows;
        if :: planned != 0 -> stamp(); drop(planned) :: else fi;
        judge()
    };
done:
    atomic { t = 0; start = 0; planned = 0 }
}
#endif

/* The manifest: cancel what is too old; then what is known to somebody, and what is dropped and old. */
inline look() {
    i = 0;
    do
    :: i < OBJECTS ->
        if
        :: HAS(intents, i) && begun[i] + GRACE <= n -> seen = seen | BIT(i)
        :: else
        fi;
        if
#ifdef MUTANT_SWEEP_IGNORES_GRACE
        :: HAS(dropped, i) -> old = old | BIT(i)
#else
        :: HAS(dropped, i) && (HAS(unstamped, i) -> stored : since[i]) + GRACE <= n ->
            old = old | BIT(i)
#endif
        :: else
        fi;
        i++
    :: else -> break
    od;
    known = rows | dropped | (intents & ~seen);
#ifdef PLAIN /* it may be anybody's who seals */
    if :: (intents & ~seen) != 0 -> known = known | BIT(PLAIN) :: else fi;
#endif
#ifdef MUTANT_SWEEP_IGNORES_INTENTS
    known = rows | dropped;
#endif
#ifdef MUTANT_NAMED_OBJECTS_ARE_SWEPT
    known = dropped | (intents & ~seen);
#endif
#ifdef MUTANT_LEFTOVERS_STAY
    known = objects;
#endif
#ifndef MUTANT_OLD_INTENTS_ARE_NOT_CANCELLED
    if
    :: seen != 0 ->
        stamp();
        intents = intents & ~seen; i = 0;
        do
        :: i < OBJECTS -> if :: HAS(seen, i) -> begun[i] = 0 :: else fi; i++
        :: else -> break
        od
    :: else
    fi;
#endif
    i = 0; seen = 0
}

inline list() {
    i = 0; listed = 0;
    do
    :: i < OBJECTS ->
        if
        :: HAS(objects, i) -> listed = listed | BIT(i);
#ifndef LEFTOVERS_OF_ANY_AGE
            if :: modified[i] + GRACE > n -> young = young | BIT(i) :: else fi
#endif
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0
}

inline clear() { /* forget what was dropped and is deleted */
    stamp();
    dropped = dropped & ~old; i = 0;
    do
    :: i < OBJECTS -> if :: HAS(old, i) -> since[i] = 0 :: else fi; i++
    :: else -> break
    od;
    i = 0
}

#ifdef SWEEPER
proctype Sweeper(byte rounds) {
    byte n, listed, young, known, old;

again:
    atomic { now >= GRACE; n = now }; /* before that nothing is old */
#ifdef MUTANT_MANIFEST_BEFORE_LISTING
    atomic { look() };
    atomic { list(); listed = listed & (old | (~known & ~young)) };
#else
    atomic { may_die(); list() };
    atomic { may_die(); look(); listed = listed & (old | (~known & ~young)) };
#endif
#if defined(PLAIN) && !defined(MUTANT_PLAIN_NAMES_ARE_NOT_BURNT)
    if
    :: HAS(listed & ~old, PLAIN) && !burnt ->
        /* Who began before this may still use the name: their intents are known now. */
        atomic {
            may_die(); stamp(); burnt = true;
            if
            :: HAS(rows, PLAIN) || intents != 0 -> listed = listed & ~BIT(PLAIN)
            :: else
            fi
        }
    :: else
    fi;
#endif
    young = 0; known = 0;
    do
    :: atomic {
        listed != 0 ->
            may_die();
            i = 0;
            do :: HAS(listed, i) -> break :: else -> i++ od;
            listed = listed & ~BIT(i); delete(i); i = 0; judge()
    }
    :: listed == 0 -> break
    od;
    atomic { may_die(); if :: old != 0 -> clear() :: else fi };
    atomic {
        n = 0; listed = 0; young = 0; known = 0; old = 0; rounds--;
        if :: rounds > 0 -> goto again :: else fi
    };
done:
    atomic { n = 0; listed = 0; young = 0; known = 0; old = 0; rounds = 0 }
}
#endif

#ifdef READER
proctype Reader() {
    byte began, held;

    atomic {
        began = now; i = 0;
        do
        :: i < OBJECTS ->
            if :: HAS(rows, i) && next[i] > log_start -> held = held | BIT(i) :: else fi; i++
        :: else -> break
        od;
        i = 0
    };
    atomic {
        assert(H4_a_reader_finds_what_it_was_promised ||
               now >= began + GRACE || (held & objects) == held);
        began = 0; held = 0
    }
}
#endif

proctype Clock() { do :: now < TIME_MAX -> now++ :: else -> break od }

#ifdef LATE
/* The network delivers a PUT for the second time; the object may have been deleted since. */
proctype Network() {
    if
    :: atomic {
        late != 0 ->
            if
            :: !HAS(objects, late - 1) ->
                objects = objects | BIT(late - 1); modified[late - 1] = now;
                kept[late - 1] = late_kept; marked[late - 1] = late_marked
            :: else
            fi;
            late = OBJECTS + 1; late_kept = 0; late_marked = 0
    }
    :: skip
    fi
}
#endif

init {
    byte n, listed, young, known, old;

    atomic {
        do
        :: i < SEALED ->
            objects = objects | BIT(i); rows = rows | BIT(i);
            base[i] = i; next[i] = i + 1; kept[i] = BIT(i); i++
        :: else -> break
        od;
        i = 0;
        sealed_end = SEALED;
        run Clock();
#ifdef LATE
        run Network();
#endif
        START
    };
    /* All have ended or died. Two graces and three sweeps later nothing is left over. */
    atomic {
        _nr_pr == 1;
        do
        :: n < TIME_MAX + 3 * GRACE ->
            n = (n < TIME_MAX -> TIME_MAX : n) + GRACE; now = n;
            list(); look(); listed = listed & (old | (~known & ~young)); j = 0;
            do
            :: j < OBJECTS -> if :: HAS(listed, j) -> delete(j) :: else fi; j++
            :: else -> break
            od;
            j = 0; clear(); judge();
            listed = 0; young = 0; known = 0; old = 0
        :: else -> break
        od;
        assert(H5_nothing_is_left_that_nobody_names ||
               (objects == rows && dropped == 0));
#ifndef MUTANT_OLD_INTENTS_ARE_NOT_CANCELLED
        assert(H5_nothing_is_left_that_nobody_names || intents == 0)
#endif
    }
}
