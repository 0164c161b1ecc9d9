const english = "The night shift reported that pump two lost pressure at three in the morning. The pressure fell from six bar to two within a minute. " +
  "The cause was a worn seal, which had been due for replacement since June. Nobody had noticed, because the reminder went to a mailbox that is no longer read. " +
  "The seal was replaced before six, and the pump has held its pressure since. Pump one carried the load in the meantime, so no customer was affected. " +
  "The maintenance plan will be checked for other parts that are overdue. Reminders will go to the whole shift from Monday on.";

const samples: Readonly<Record<string, string>> = {
  en: english,
  nb: "Nattskiftet meldte at pumpe to mistet trykket klokken tre om natten. Trykket falt fra seks bar til to på ett minutt. " +
    "Årsaken var en slitt pakning som skulle vært byttet i juni. Ingen hadde merket det, fordi påminnelsen gikk til en postkasse som ikke lenger blir lest. " +
    "Pakningen ble byttet før klokken seks, og pumpen har holdt trykket siden. Pumpe én tok belastningen i mellomtiden, så ingen kunder ble berørt. " +
    "Vedlikeholdsplanen blir gjennomgått for andre deler som er på overtid. Fra mandag går påminnelsene til hele skiftet.",
  de: "Die Nachtschicht meldete, dass Pumpe zwei um drei Uhr morgens Druck verlor. Der Druck fiel innerhalb einer Minute von sechs auf zwei Bar. " +
    "Ursache war eine verschlissene Dichtung, die seit Juni hätte ersetzt werden müssen. Niemand hatte es bemerkt, weil die Erinnerung an ein Postfach ging, das niemand mehr liest. " +
    "Die Dichtung wurde vor sechs Uhr ersetzt, und seitdem hält die Pumpe ihren Druck. Pumpe eins trug inzwischen die Last, sodass kein Kunde betroffen war. " +
    "Der Wartungsplan wird auf weitere überfällige Teile geprüft. Ab Montag gehen Erinnerungen an die ganze Schicht.",
  fr: "L’équipe de nuit a signalé que la pompe deux avait perdu sa pression à trois heures du matin. La pression est tombée de six bars à deux en une minute. " +
    "La cause était un joint usé, qui aurait dû être remplacé en juin. Personne ne l’avait remarqué, car le rappel arrivait dans une boîte que plus personne ne lit. " +
    "Le joint a été remplacé avant six heures, et la pompe tient sa pression depuis. La pompe une a pris la charge entre-temps, et aucun client n’a été touché. " +
    "Le plan d’entretien sera vérifié pour trouver d’autres pièces en retard. Dès lundi, les rappels iront à toute l’équipe.",
  es: "El turno de noche informó de que la bomba dos perdió presión a las tres de la madrugada. La presión bajó de seis bares a dos en un minuto. " +
    "La causa fue una junta gastada, que debía haberse cambiado en junio. Nadie lo había notado, porque el aviso llegaba a un buzón que ya nadie lee. " +
    "La junta se cambió antes de las seis y la bomba mantiene la presión desde entonces. La bomba uno asumió la carga mientras tanto, así que ningún cliente se vio afectado. " +
    "Se revisará el plan de mantenimiento en busca de otras piezas atrasadas. Desde el lunes, los avisos irán a todo el turno.",
  ar: "أبلغت الوردية الليلية أن المضخة الثانية فقدت ضغطها في الثالثة صباحًا. انخفض الضغط من ستة بار إلى اثنين خلال دقيقة. " +
    "كان السبب حشية بالية كان يجب استبدالها منذ يونيو. لم ينتبه أحد، لأن التذكير كان يصل إلى صندوق بريد لم يعد يُقرأ. " +
    "استُبدلت الحشية قبل السادسة، وحافظت المضخة على ضغطها منذ ذلك الحين. تحملت المضخة الأولى العبء في هذه الأثناء، فلم يتأثر أي عميل. " +
    "ستُراجع خطة الصيانة بحثًا عن قطع أخرى متأخرة. وستصل التذكيرات إلى الوردية كلها ابتداءً من يوم الاثنين.",
  ja: "夜勤から、午前三時に二号ポンプの圧力が失われたとの報告がありました。圧力は一分で六バールから二バールに下がりました。" +
    "原因は摩耗したシールで、六月に交換する予定のものでした。通知が誰も読まなくなったメールボックスに届いていたため、誰も気づきませんでした。" +
    "シールは六時前に交換され、その後ポンプは圧力を保っています。その間は一号ポンプが負荷を担ったため、お客様への影響はありませんでした。" +
    "保守計画を見直し、期限を過ぎた部品がほかにないか確認します。月曜日からは通知を勤務者全員に送ります。",
  zh: "夜班报告说，二号泵在凌晨三点失去了压力。压力在一分钟内从六巴降到了两巴。" +
    "原因是一个磨损的密封圈，本应在六月更换。没有人注意到，因为提醒发到了一个已经没人看的邮箱。" +
    "密封圈在六点前换好，此后泵一直保持着压力。其间由一号泵承担负荷，因此没有客户受到影响。" +
    "我们将检查维护计划，看看是否还有其他逾期的部件。从星期一起，提醒将发给整个班组。",
};

/** A text to summarize in a language, in English where there is none. */
export function sampleOf(language: string): string {
  return samples[language] ?? english;
}
