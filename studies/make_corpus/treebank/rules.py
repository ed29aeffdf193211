"""The grammar: `constituent -> weight children | weight children …`, in the notation of the Penn Treebank.

The part of a name after a slash distinguishes constituents of one label and is not written: (NP-SBJ/sg …) becomes
(NP-SBJ …). A name in lower case is not a constituent: its children take its place. {n} stands for sg and pl, {v} for
every form of a verb, each in turn. A symbol without a rule is a part of speech; its words are in words.py.

A sentence has one tree. Where English is ambiguous about what a phrase is attached to, the words decide:

- "found the key in the garden", "sold the house in the village": a place is attached to verbs such as `find`, but to
  the object of verbs such as `sell`;
- "opened the door with the key", "painted the man with the beard": a tool is attached to the verb, a feature to the
  noun;
- "met the teacher on Monday", "missed the concert on Monday": a time is attached to the verb, unless the noun is an
  event;
- "slept and danced", "said that he slept": a phrase that could be attached to several verbs is attached to the last.
"""

VERB_FORMS = ("VB", "VBP", "VBZ", "VBD", "VBN", "VBG")
NUMBERS = ("sg", "pl")

RULES = """
TOP -> 50 S/plain | 9 S/fronted | 7 S/because | 6 S/and | 5 S/there | 5 S/said | 4 S/command
TOP -> 8 SQ/question | 8 SBARQ/question | 3 NP/heading

# ---- Sentences ----

S/plain   -> 1 clause ./.
S/fronted -> 3 PP-TMP , clause ./. | 2 SBAR-ADV , clause ./. | 2 ADVP/sentence , clause ./. | 1 NP-TMP clause ./.
S/because -> 2 NP-SBJ/sg VP/because.sg ./. | 1 NP-SBJ/pl VP/because.pl ./.
S/and     -> 1 S , CC/clause S ./.
S/there   -> 2 NP-SBJ/ex VP/there.sg ./. | 1 NP-SBJ/ex VP/there.pl ./.
S/said    -> 1 `` S-TPC-1 , '' NP-SBJ/speaker VP/said ./. | 1 S-TPC-1 , NP-SBJ/speaker VP/said ./.
S/command -> 3 NP-SBJ/none VP/VB ./. | 1 NP-SBJ/none VP/VB ./!
S         -> 1 clause
S-TPC-1   -> 1 clause
NP/heading -> 1 np/thing.sg | 1 NP/person CC/and NP/person | 1 NP/b.thing.sg PP-LOC

clause -> 5 NP-SBJ/sg finite/sg | 3 NP-SBJ/pl finite/pl

NP-SBJ/ex      -> 1 EX
NP-SBJ/none    -> 1 -NONE-/dropped
NP-SBJ/speaker -> 2 NNP/name | 1 DT/sg NN/person
VP/said        -> 1 VBD/say S/moved
S/moved        -> 1 -NONE-/moved
VP/there.{n}   -> 2 be/{n} NP/b.thing.{n} PP-LOC | 1 be/{n} NP/b.person.{n} PP-LOC | 1 be/{n} NP/b.thing.{n}
VP/because.{n} -> 2 VBD/iv SBAR-PRP | 2 VBD/ta NP/simple SBAR-PRP | 1 be/{n} ADJP-PRD SBAR-PRP
SBAR-PRP       -> 3 IN/because S | 1 WHADVP/when S
SBAR-ADV       -> 3 IN/although S | 2 WHADVP/when S
WHADVP/when    -> 1 WRB/when
ADVP/sentence  -> 1 RB/sentence

# ---- Questions ----

SQ/question -> 4 MD NP-SBJ/sg VP/VB ./? | 2 MD NP-SBJ/pl VP/VB ./? | 3 VBZ/do NP-SBJ/sg VP/VB ./?
SQ/question -> 3 VBD/do NP-SBJ/pl VP/VB ./? | 2 VBZ/be NP-SBJ/sg ADJP-PRD ./? | 2 VBP/be NP-SBJ/pl PP-LOC-PRD ./?
SBARQ/question -> 3 WHNP-1/who SQ/subject ./? | 3 WHADVP-1 SQ/did ./? | 3 WHNP-1/what SQ/object ./?
SQ/subject -> 1 NP-SBJ/trace finite/sg
SQ/did     -> 2 VBD/do NP-SBJ/sg VP/VB | 1 MD NP-SBJ/pl VP/VB | 1 VBP/be NP-SBJ/pl VP/VBG
SQ/object  -> 2 VBD/do NP-SBJ/sg VP/gap.VB | 1 MD NP-SBJ/pl VP/gap.VB
WHNP-1/who  -> 3 WP/who | 1 WDT/which NN/person
WHNP-1/what -> 3 WP/what | 2 WDT/which NN/thing | 1 WRB/how JJ/many NNS/thing
WHADVP-1    -> 1 WRB

# ---- Verbs and what follows them ----

finite/sg -> 6 VP/VBD | 6 VP/VBZ | 2 VP/modal | 2 VP/has | 2 VP/is.sg | 2 VP/copula.sg | 1 VP/passive.sg | 1 VP/not.sg
finite/pl -> 5 VP/VBD | 5 VP/VBP | 2 VP/modal | 2 VP/have | 2 VP/is.pl | 2 VP/copula.pl | 1 VP/passive.pl | 1 VP/not.pl

VP/modal -> 4 MD VP/VB | 1 MD RB/not VP/VB | 1 MD VP/be.passive | 1 MD VP/be.copula
VP/has   -> 4 VBZ/have VP/VBN | 1 VBZ/have RB/not VP/VBN
VP/have  -> 4 VBP/have VP/VBN | 1 VBP/have ADVP/just VP/VBN
VP/is.sg -> 2 VBZ/be VP/VBG | 2 VBD/be VP/VBG
VP/is.pl -> 2 VBP/be VP/VBG | 2 VBD/were VP/VBG
VP/not.sg -> 1 VBZ/do RB/not VP/VB | 1 VBD/do RB/not VP/VB
VP/not.pl -> 1 VBP/do RB/not VP/VB | 1 VBD/do RB/not VP/VB
VP/passive.{n} -> 1 be/{n} VP/passive
VP/be.passive  -> 1 VB/be VP/passive
VP/passive -> 3 VBN/ta NP/trace PP/by | 2 VBN/ta NP/trace PP-LOC
VP/passive -> 1 VBN/ta NP/trace PP-TMP PP/by | 1 VBN/tn NP/trace PP/by
VP/passive -> 1 VBN/dv NP/trace PP-DTV | 1 VBN/tt NP/trace PP-MNR
VP/copula.{n} -> 4 be/{n} ADJP-PRD | 2 be/{n} PP-LOC-PRD | 2 be/{n} NP-PRD/{n} | 1 be/{n} RB/not ADJP-PRD
VP/be.copula  -> 2 VB/be ADJP-PRD | 1 VB/be PP-LOC-PRD
NP-PRD/sg -> 1 DT/a JJ NN/person | 1 DT/a NN/person | 1 NP/b.person.sg PP/of
NP-PRD/pl -> 1 JJ NNS/person
be/sg -> 1 VBZ/be | 1 VBD/be
be/pl -> 1 VBP/be | 1 VBD/were

VP/{v} -> 5 {v}/iv | 3 {v}/iv ADVP-MNR | 4 {v}/iv PP-LOC | 3 {v}/iv PP-TMP | 2 {v}/iv NP-TMP | 2 {v}/iv PP-LOC PP-TMP
VP/{v} -> 3 ADVP-MNR {v}/iv PP-LOC | 2 {v}/iv PP/with.person
VP/{v} -> 6 {v}/ta NP | 5 {v}/ta NP/simple PP-LOC | 3 {v}/ta NP/simple PP-TMP | 2 {v}/ta NP/simple PP-LOC NP-TMP
VP/{v} -> 5 {v}/tn NP | 5 {v}/tn NP/located | 2 {v}/tn NP/simple ADVP-MNR | 2 {v}/tn NP/located NP-TMP
VP/{v} -> 4 {v}/tn NP/featured | 4 {v}/tt NP/simple PP-MNR | 2 {v}/tt NP/featured | 1 {v}/tt NP/featured PP-MNR
VP/{v} -> 4 {v}/te NP/event | 2 {v}/te NP/event.simple
VP/{v} -> 4 {v}/dv NP/recipient NP/gift | 4 {v}/dv NP/gift.simple PP-DTV
VP/{v} -> 4 {v}/pv NP/simple PP-PUT
VP/{v} -> 2 {v}/pt PRT NP/simple | 2 {v}/pt NP/short PRT | 1 {v}/pt PRT NP/simple NP-TMP
VP/{v} -> 6 {v}/sv SBAR/that | 2 {v}/qv SBAR/whether | 2 {v}/qv SBAR/question
VP/{v} -> 5 {v}/cv S/to | 3 {v}/oc NP-1/person S/to | 2 {v}/gv S/gerund
VP/{v} -> 4 VP/c.{v} CC VP/c.{v}
VP/c.{v} -> 3 {v}/iv | 2 {v}/ta NP/simple | 2 {v}/tn NP/simple | 1 {v}/pt PRT NP/simple | 1 ADVP-MNR {v}/iv
VP/gap.{v} -> 3 {v}/ta NP/trace | 3 {v}/tn NP/trace
VP/gap.{v} -> 1 {v}/ta NP/trace PP-LOC | 1 {v}/pt PRT NP/trace | 1 {v}/ta NP/trace PP-TMP

SBAR/that     -> 3 IN/that S | 2 -NONE-/zero S
SBAR/whether  -> 1 IN/whether S
SBAR/question -> 1 WHADVP-2 S | 1 WHNP-1/who S/subject
WHADVP-2      -> 1 WRB
S/subject     -> 1 NP-SBJ/trace finite/sg
S/to          -> 5 NP-SBJ/none VP/to | 1 RB/not NP-SBJ/none VP/to
VP/to         -> 6 TO VP/VB | 1 TO VP/be.copula | 1 TO VP/be.passive
S/gerund      -> 1 NP-SBJ/none VP/VBG

# ---- Noun phrases ----

NP-SBJ/sg -> 9 np/person.sg | 4 np/thing.sg | 2 np/event.sg | 1 located/person.sg
NP-SBJ/pl -> 9 np/person.pl | 4 np/thing.pl | 4 and/person | 1 located/person.pl
located/person.{n} -> 1 NP/b.person.{n} PP-LOC
NP-SBJ/trace -> 1 -NONE-/trace
NP/trace     -> 1 -NONE-/trace

NP        -> 3 np/person.sg | 2 np/person.pl | 4 np/thing.sg | 3 np/thing.pl | 1 and/thing
NP/simple -> 1 base/person.sg | 1 base/person.pl | 3 base/thing.sg | 2 base/thing.pl | 1 of/thing.sg | 1 and/thing
NP/short  -> 1 DT/sg NN/thing | 1 PRP/object | 1 PRP$ NN/thing
NP/person -> 1 base/person.sg | 1 base/person.pl
NP-1/person -> 2 base/person.sg | 1 base/person.pl
NP/located  -> 2 NP/b.thing.sg PP-LOC | 1 NP/b.thing.pl PP-LOC
NP/featured -> 2 NP/b.person.sg PP/with.feature | 1 NP/b.thing.sg PP/with.feature
NP/event        -> 2 NP/b.event.sg PP-TMP | 1 NP/b.event.sg PP-LOC | 1 NP/b.event.sg PP/about
NP/event.simple -> 1 base/event.sg
NP/recipient    -> 2 NNP/name | 1 PRP/object | 2 DT/sg NN/person | 1 PRP$ NNS/person
NP/gift         -> 3 np/thing.sg | 1 base/thing.pl
NP/gift.simple  -> 3 base/thing.sg | 1 base/thing.pl | 1 of/thing.sg

np/person.{n} -> 14 base/person.{n} | 2 NP/b.person.{n} SBAR/who.{n}
np/person.{n} -> 1 NP/b.person.{n} SBAR/whom | 1 NP/b.person.{n} PP/with.feature | 1 NP/b.person.{n} , NP/apposition ,
np/thing.{n}  -> 10 base/thing.{n} | 2 of/thing.{n} | 2 NP/b.thing.{n} SBAR/which | 1 NP/b.thing.{n} SBAR/bare
np/thing.{n}  -> 1 NP/b.thing.{n} PRN
np/event.sg   -> 2 base/event.sg | 2 NP/b.event.sg PP-TMP | 1 NP/b.event.sg PP/about
NP/apposition -> 1 DT/a NN/person PP-from | 1 DT/sg NN/person PP/of
PP-from       -> 1 IN/from NP/city

NP/b.person.{n} -> 1 DT/{n} noun/person.{n} | 1 DT/{n} JJ noun/person.{n}
NP/b.thing.{n}  -> 2 DT/{n} noun/thing.{n} | 1 DT/{n} JJ noun/thing.{n}
NP/b.event.sg   -> 2 DT/sg NN/event | 1 DT/sg JJ NN/event

base/person.sg -> 6 NNP/name | 1 NNP/name NNP/surname | 4 PRP/sg
base/person.sg -> 6 DT/sg NN/person | 3 DT/sg JJ NN/person | 2 PRP$ NN/person
base/person.sg -> 1 NP/possessor NN/person | 1 DT/sg ADJP/very NN/person
base/person.pl -> 3 PRP/pl | 5 DT/pl NNS/person | 2 JJ NNS/person
base/person.pl -> 2 CD NNS/person | 1 DT/pl CD JJ NNS/person | 1 PRP$ NNS/person
base/person.pl -> 1 QP NNS/person | 1 DT/pl NNS/person
base/thing.sg -> 8 DT/sg NN/thing | 4 DT/sg JJ NN/thing
base/thing.sg -> 2 DT/sg JJ JJ/colour NN/thing | 3 PRP$ NN/thing | 2 PRP$ JJ NN/thing
base/thing.sg -> 2 NP/possessor NN/thing | 2 DT/sg NN/material NN/thing | 1 NP/possessor JJ NN/thing
base/thing.pl -> 4 DT/pl NNS/thing | 3 JJ NNS/thing | 2 CD NNS/thing
base/thing.pl -> 2 PRP$ NNS/thing | 1 QP NNS/thing | 1 NN/material NNS/thing
base/event.sg -> 3 DT/sg NN/event | 1 DT/sg JJ NN/event
noun/person.sg -> 1 NN/person
noun/person.pl -> 1 NNS/person
noun/thing.sg  -> 4 NN/thing | 1 NN/material NN/thing
noun/thing.pl  -> 4 NNS/thing | 1 NN/material NNS/thing
NP/possessor -> 3 NNP/name POS | 2 DT/sg NN/person POS
QP -> 2 IN/about CD | 1 JJR/more IN/than CD | 1 RB/nearly CD
of/thing.sg -> 1 NP/part.sg PP/of.thing
of/thing.pl -> 1 NP/part.pl PP/of.thing
NP/part.sg -> 3 DT/sg NN/part | 1 DT/sg JJ NN/part
NP/part.pl -> 1 DT/pl NNS/part
and/person -> 2 NP/single CC/and NP/single | 1 NP/single , NP/single CC/and NP/single
and/thing  -> 2 NP/object CC NP/object | 1 NP/object , NP/object CC NP/object
NP/single -> 2 NNP/name | 2 DT/sg NN/person | 1 PRP$ NNS/person
NP/object -> 3 DT/sg NN/thing | 1 DT/sg JJ NN/thing | 1 DT/pl NNS/thing | 1 CD NNS/thing

SBAR/who.{n} -> 1 WHNP-1/rel S/who.{n}
S/who.{n}    -> 1 NP-SBJ/trace finite/{n}
SBAR/whom    -> 1 WHNP-1/whom S/gap
SBAR/which   -> 1 WHNP-1/which S/gap
SBAR/bare    -> 1 WHNP-1/zero S/gap
S/gap        -> 2 NP-SBJ/short VP/gap.VBD | 1 NP-SBJ/short VP/gap.has
VP/gap.has   -> 1 VBZ/have VP/gap.VBN
NP-SBJ/short -> 3 NNP/name | 1 PRP/sg | 2 DT/sg NN/person
WHNP-1/rel   -> 1 WP/who
WHNP-1/whom  -> 1 WP/whom
WHNP-1/which -> 2 WDT/that | 1 WDT/relative
WHNP-1/zero  -> 1 -NONE-/zero
PRN -> 1 -LRB- NP/b.thing.sg -RRB- | 1 : NP/b.thing.sg :

# ---- The rest ----

PP-LOC     -> 1 IN/place NP/place
PP-LOC-PRD -> 1 IN/place NP/place
PP-PUT     -> 1 IN/place NP/place
NP/place   -> 7 DT/sg NN/place | 3 DT/sg JJ NN/place | 2 NP/city
NP/place   -> 2 PRP$ NN/place | 3 NP/b.place PP-LOC | 1 NP/owner NN/place
NP/b.place -> 1 DT/sg NN/place
NP/owner   -> 1 NNP/name POS
NP/city    -> 1 NNP/city
PP-TMP -> 3 IN/on NP/day | 2 IN/in NP/month | 2 IN/in NP/part | 2 IN/during NP/span
NP/day -> 1 NNP/day
NP/month -> 1 NNP/month
NP/part -> 1 DT/the NN/daytime
NP/span -> 1 DT/the NN/span
NP-TMP -> 2 NN/adverbial | 1 JJ/last NN/span | 1 DT/every NN/daytime | 1 DT/this NN/daytime
PP/by    -> 1 IN/by NP/agent
NP/agent -> 2 NNP/name | 2 DT/sg NN/person | 1 DT/pl NNS/person
PP/of       -> 1 IN/of NP/agent
PP/of.thing -> 3 IN/of NP/whole | 1 IN/of NP/agent
NP/whole    -> 3 DT/sg NN/thing | 1 DT/sg JJ NN/thing | 1 PRP$ NN/place
PP/with.person  -> 1 IN/with NP/agent
PP/with.feature -> 1 IN/with NP/feature
NP/feature -> 2 DT/a NN/feature | 2 DT/a JJ NN/feature | 1 DT/a JJ JJ/colour NN/feature
PP-MNR  -> 1 IN/with NP/tool
NP/tool -> 2 DT/sg NN/tool | 1 DT/a JJ NN/tool | 1 PRP$ NN/tool
PP-DTV  -> 1 TO NP/person
PP/about -> 1 IN/about NP/topic
NP/topic -> 2 NN/topic | 1 DT/pl NNS/thing
ADVP-MNR  -> 4 RB/manner | 1 RB/very RB/manner
ADVP/just -> 1 RB/just
ADJP-PRD -> 5 JJ | 3 RB/very JJ | 2 JJR PP/than | 2 JJ CC JJ | 2 JJ/of PP/of.thing | 1 JJ/to S/to
ADJP/very -> 1 RB/very JJ
PP/than  -> 1 IN/than NP/compared
NP/compared -> 2 NNP/name | 2 DT/sg NN/person | 1 DT/sg NN/thing
PRT -> 1 RP
"""
